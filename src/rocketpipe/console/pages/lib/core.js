// What every view stands on: the address as state, the API, words, and how values are written.
import { html, render, useState, useEffect, useRef, useMemo, useCallback } from "../vendor/preact-htm.js";

export { html, render, useState, useEffect, useRef, useMemo, useCallback };

// Words

let words = {};
export let language = "en";

export async function setLanguage(wanted) {
  const name = wanted === "zh" ? "zh" : "en";
  const answer = await fetch(new URL(`../i18n/${name}.json`, import.meta.url));
  words = await answer.json();
  language = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : "en";
}

export function firstLanguage() {
  const chosen = localStorage.getItem("rocketpipe.language");
  if (chosen) return chosen;
  return (navigator.languages || [navigator.language]).some((each) => /^zh\b/i.test(each)) ? "zh" : "en";
}

/** A text by its name, with what stands in braces filled in. */
export function t(name, values) {
  const text = words[name] ?? name;
  return values ? text.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all) : text;
}

// The address

/** Where the person is now, which what was rendered may not have heard of yet. */
export function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = [];
  }
  return { parts, query: Object.fromEntries(new URLSearchParams(query || "")) };
}

/** The address of a view: its path, and what it shows of it. */
export function link(parts, query) {
  const kept = Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(parts, query, { replace = false } = {}) {
  const to = link(parts, query);
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  dispatchEvent(new Event("routechange"));
}

export function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const changed = () => setRoute(readRoute());
    addEventListener("hashchange", changed);
    addEventListener("popstate", changed);
    addEventListener("routechange", changed);
    return () => {
      removeEventListener("hashchange", changed);
      removeEventListener("popstate", changed);
      removeEventListener("routechange", changed);
    };
  }, []);
  return route;
}

// The API

export class ApiError extends Error {
  constructor(status, cause, next) {
    super(cause);
    this.status = status;
    this.next = next;
  }
}

async function answered(response) {
  const text = await response.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError(response.status, t("error.answer", { status: response.status }), t("error.retry"));
  }
  if (!response.ok) {
    const error = value.error || {};
    if (response.status === 401) dispatchEvent(new Event("needslogin"));
    throw new ApiError(response.status, error.cause || "", error.next || "");
  }
  return value;
}

export async function api(path, params, signal) {
  const kept = Object.entries(params || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(kept).toString();
  let response;
  try {
    response = await fetch(`api/1/${path}${query ? `?${query}` : ""}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, t("error.unreachable"), t("error.retry"));
  }
  return answered(response);
}

export async function post(path, body) {
  let response;
  try {
    response = await fetch(`api/1/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-RocketPipe-Console": "1" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, t("error.unreachable"), t("error.retry"));
  }
  return answered(response);
}

/** What a path of the API answers, asked again when its parameters change, or by `reload`. */
export function useApi(path, params, { every = 0, wait = false } = {}) {
  const [state, setState] = useState({ data: null, error: null, loading: !wait });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify([path, params]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (wait || !path) return undefined;
    const stop = new AbortController();
    setState((before) => ({ data: before.key === key ? before.data : null, key, error: null, loading: true }));
    api(path, params, stop.signal).then(
      (data) => {
        setState({ data, key, error: null, loading: false });
        if (data.as_of_ms) dispatchEvent(new CustomEvent("asof", { detail: data.as_of_ms }));
      },
      (error) => {
        if (error.name !== "AbortError") setState((before) => ({ ...before, error, loading: false }));
      },
    );
    return () => stop.abort();
  }, [key, turn, wait]);
  useEffect(() => {
    addEventListener("refresh", reload);
    return () => removeEventListener("refresh", reload);
  }, []);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), every);
    return () => clearInterval(timer);
  }, [every]);
  return { ...state, reload };
}

/** One stream a tab, of what is seen; closed while the tab is hidden. */
export function useLive(see, params, handlers) {
  const latest = useRef(handlers);
  latest.current = handlers;
  const key = see && JSON.stringify([see, params]);
  useEffect(() => {
    if (!see) return undefined;
    let source = null;
    const query = new URLSearchParams({ see, ...Object.fromEntries(Object.entries(params || {}).filter(([, value]) => value)) });
    const open = () => {
      source = new EventSource(`api/1/live?${query}`);
      for (const name of ["overview", "group", "tail", "problem"]) {
        source.addEventListener(name, (event) => latest.current[name]?.(JSON.parse(event.data)));
      }
      source.onerror = () => latest.current.lost?.();
    };
    const close = () => {
      source?.close();
      source = null;
    };
    const seen = () => (document.visibilityState === "visible" ? source || open() : close());
    document.addEventListener("visibilitychange", seen);
    seen();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      close();
    };
  }, [key]);
}

// How values are written

const locale = () => (language === "zh" ? "zh-CN" : "en-GB");

export function number(value) {
  return value === null || value === undefined ? "–" : new Intl.NumberFormat(locale(), { maximumFractionDigits: value < 10 ? 1 : 0 }).format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value)} ${units[at]}`;
}

export function moment(ms, { millis = false } = {}) {
  if (!ms) return "–";
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  if (millis) parts.fractionalSecondDigits = 3;
  return new Intl.DateTimeFormat(locale(), parts).format(ms);
}

export function clock(ms) {
  return new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(ms);
}

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds === 0 ? "0 s" : `${number(seconds)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[at];
  const first = Math.floor(seconds / size);
  const next = units[at + 1];
  const rest = next && first < 10 ? Math.floor((seconds % size) / next[1]) : 0;
  return rest ? `${first} ${unit} ${rest} ${next[0]}` : `${first} ${unit}`;
}

/** What an input of local time holds, and back. */
export function toInput(ms) {
  if (!ms) return "";
  const at = new Date(Number(ms));
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

export const fromInput = (text) => (text ? new Date(text).getTime() : "");

export function fromBase64(text) {
  const raw = atob(text || "");
  return Uint8Array.from(raw, (each) => each.charCodeAt(0));
}

/** Rows as a file of cells; what a spreadsheet would take for a formula is quoted. */
export function csv(columns, rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => line.map(cell).join(",")).join("\r\n");
}

export function saveAs(name, kind, text) {
  const place = URL.createObjectURL(new Blob([text], { type: kind }));
  const anchor = document.createElement("a");
  anchor.href = place;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(place), 10000);
}

/** Say an outcome, to eyes and to screen readers. */
export function say(text, kind = "good") {
  dispatchEvent(new CustomEvent("said", { detail: { text, kind } }));
}
