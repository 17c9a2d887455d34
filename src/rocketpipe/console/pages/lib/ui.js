// The pieces that views are made of.
import { html, useState, useEffect, useRef, useMemo, t, go, link, number, duration, clock, api, say } from "./core.js";

const ICONS = {
  overview: "M3 13h7V3H3zM14 21h7V11h-7zM3 21h7v-4H3zM14 7h7V3h-7z",
  topics: "M4 6h16M4 12h16M4 18h10",
  messages: "M4 5h16v12H9l-5 4z",
  groups: "M8 11a3 3 0 100-6 3 3 0 000 6zM16 12a2.500 2.500 0 100-5M2.500 20c0-3.500 2.500-5.500 5.500-5.500s5.500 2 5.500 5.500M16 15c2.800 0 5 1.800 5 5",
  dlq: "M4 8h16v11H4zM4 8l3-4h10l3 4M9 12l6 4M15 12l-6 4",
  waiting: "M12 21a9 9 0 100-18 9 9 0 000 18zM12 7v5l3.500 2",
  traces: "M4 6h6M8 12h8M13 18h7",
  clients: "M4 5h16v10H4zM9 20h6M12 15v5",
  brokers: "M4 4h16v6H4zM4 14h16v6H4zM7.500 7h.01M7.500 17h.01",
  pipelines: "M3 6h5v5H3zM16 13h5v5h-5zM8 8.500h4c3 0 1 7 4 7",
  users: "M12 3l8 3v6c0 4.500-3.500 7.500-8 9-4.500-1.500-8-4.500-8-9V6zM9 12l2 2 4-4",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${ICONS[name]} /></svg>`;
}

/** A number, or the word for none, with the reason; a sum with an unknown part says "at least". */
export function Figure({ of, as = number }) {
  if (of === null || of === undefined) return html`<span class="dim">–</span>`;
  if (typeof of !== "object") return html`<span class="num">${as(of)}</span>`;
  if (of.value === undefined || of.value === null) {
    return html`<span class="unknown" title=${of.unknown}>${t("unknown")} <span aria-hidden="true">ⓘ</span><span class="sr">: ${of.unknown}</span></span>`;
  }
  if (of.at_least) {
    return html`<span class="num atleast" title=${of.unknown}>${t("at.least")} ${as(of.value)} <span aria-hidden="true">ⓘ</span><span class="sr">: ${of.unknown}</span></span>`;
  }
  return html`<span class="num">${as(of.value)}</span>`;
}

const MARKS = { good: "✓", warn: "!", bad: "✕", plain: "•", info: "i" };

/** A state: never by its colour alone. */
export function Badge({ kind = "plain", children }) {
  return html`<span class=${`badge ${kind}`}><span class="mark" aria-hidden="true">${MARKS[kind]}</span>${children}</span>`;
}

export function Problem({ error, retry }) {
  if (!error) return null;
  return html`<div class="problem" role="alert">
    <strong>${error.message || t("error.unknown")}</strong>
    ${error.next && error.next !== error.message && html`<p>${error.next}</p>`}
    ${retry && html`<button class="small" onClick=${retry}>${t("retry")}</button>`}
  </div>`;
}

export function Empty({ children, hint }) {
  return html`<div class="empty"><p>${children}</p>${hint && html`<code>${hint}</code>`}</div>`;
}

export function Loading() {
  return html`<div class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${t("loading")}</div>`;
}

export function Head({ title, sub, children, crumbs }) {
  useEffect(() => {
    document.title = `${title} · RocketPipe`;
  }, [title]);
  return html`<header class="head">
    <div>
      ${crumbs && html`<nav class="crumbs" aria-label=${t("crumbs")}>${crumbs.map(([text, to]) => html`<a href=${to}>${text}</a><span aria-hidden="true">/</span>`)}</nav>`}
      <h1 class="wrap">${title}</h1>
      ${sub && html`<p class="sub">${sub}</p>`}
    </div>
    <div class="actions">${children}</div>
  </header>`;
}

export function Tabs({ tabs, now, parts, label, query = {} }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([name, text]) => html`<a href=${link(parts, { ...query, tab: name })} aria-current=${now === name ? "page" : undefined}>${text}</a>`)}
  </nav>`;
}

export function Field({ label, children, wide, hint }) {
  return html`<label class=${wide ? "field wide" : "field"}><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

export function Card({ title, children, aside, kind }) {
  return html`<section class=${`card ${kind || ""}`}>
    ${title && html`<div class="card-head"><h2>${title}</h2>${aside}</div>`}
    ${children}
  </section>`;
}

/** A table of some rows; `columns` are [name, heading, cell, kind]. */
export function Table({ label, columns, rows, onOpen, rowKey, chosen }) {
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${label}><table>
    <caption class="sr">${label}</caption>
    <thead><tr>${columns.map(([name, text, , kind]) => html`<th scope="col" key=${name} class=${kind || ""}>${text}</th>`)}</tr></thead>
    <tbody>${rows.map((row, at) => html`<tr key=${rowKey ? rowKey(row) : at} data-row class=${`${onOpen ? "opens" : ""} ${chosen?.(row) ? "chosen" : ""}`}
        onClick=${onOpen && ((event) => !event.target.closest("a,button,input") && onOpen(row))}>
      ${columns.map(([name, , cell, kind]) => html`<td key=${name} class=${kind || ""}>${cell(row)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

const ROW = 41;

/** The same for very many rows: only those on screen are there. `needs` is told which these are. */
export function LongTable({ label, columns, rows, needs }) {
  const box = useRef(null);
  const [from, setFrom] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const look = () => {
      const top = box.current.getBoundingClientRect().top;
      setHeight(Math.max(240, innerHeight - top - 32));
    };
    look();
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  useEffect(() => {
    box.current.scrollTop = 0;
    setFrom(0);
  }, [rows]);
  const count = Math.ceil(height / ROW) + 4;
  const begin = Math.max(0, Math.min(from - 2, rows.length - count));
  const shown = rows.slice(begin, begin + count);
  useEffect(() => needs?.(shown), [begin, count, rows]);
  return html`<div class="table-box long" ref=${box} tabindex="0" role="region" aria-label=${label}
      style=${{ maxHeight: `${height}px` }}
      onScroll=${(event) => setFrom(Math.floor(event.currentTarget.scrollTop / ROW))}>
    <table aria-rowcount=${rows.length + 1}>
      <caption class="sr">${label}</caption>
      <thead><tr aria-rowindex="1">${columns.map(([name, text, , kind]) => html`<th scope="col" key=${name} class=${kind || ""}>${text}</th>`)}</tr></thead>
      <tbody>
        <tr class="pad" aria-hidden="true" style=${{ height: `${begin * ROW}px` }}></tr>
        ${shown.map((row, at) => html`<tr key=${row.name} data-row aria-rowindex=${begin + at + 2}>
          ${columns.map(([name, , cell, kind]) => html`<td key=${name} class=${kind || ""}>${cell(row)}</td>`)}
        </tr>`)}
        <tr class="pad" aria-hidden="true" style=${{ height: `${Math.max(0, rows.length - begin - shown.length) * ROW}px` }}></tr>
      </tbody>
    </table>
  </div>`;
}

/** Figures for the rows on screen, asked for a few at a time and kept. */
export function useFigures(path) {
  const [found, setFound] = useState({});
  const asked = useRef(new Set());
  const waiting = useRef([]);
  const timer = useRef(null);
  const ask = async () => {
    timer.current = null;
    while (waiting.current.length) {
      const names = [];
      let size = 0;
      while (waiting.current.length && names.length < 25 && size < 3000) {
        const name = waiting.current.pop();
        names.push(name);
        size += name.length + 3;
      }
      try {
        const { rows } = await api(path, { names: names.join(",") });
        setFound((before) => ({ ...before, ...rows }));
      } catch (error) {
        setFound((before) => ({ ...before, ...Object.fromEntries(names.map((name) => [name, { problem: error.message }])) }));
      }
    }
  };
  const needs = (rows) => {
    // Who scrolls on does not want what has gone by.
    for (const name of waiting.current) asked.current.delete(name);
    waiting.current = rows.map((row) => row.name).filter((name) => !asked.current.has(name));
    for (const name of waiting.current) asked.current.add(name);
    if (!timer.current && waiting.current.length) timer.current = setTimeout(ask, 60);
  };
  useEffect(() => {
    const again = () => {
      asked.current.clear();
      setFound({});
    };
    addEventListener("refresh", again);
    return () => removeEventListener("refresh", again);
  }, []);
  return [found, needs];
}

export function figureCell(found, name, show) {
  const figures = found[name];
  if (!figures) return html`<span class="dim" aria-hidden="true">…</span>`;
  if (figures.problem) return html`<${Figure} of=${{ unknown: figures.problem }} />`;
  return show(figures);
}

/** A dialog over the page; Esc and the cross close it. */
export function Dialog({ title, onClose, children, wide }) {
  const box = useRef(null);
  useEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.open && dialog.close();
  }, []);
  return html`<dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby="dialog-title"
      onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <div class="dialog-head"><h2 id="dialog-title">${title}</h2>
      <button class="icon-button" aria-label=${t("close")} onClick=${onClose}>✕</button></div>
    ${children}
  </dialog>`;
}

/** Asks for a name to be typed before something is done for good. */
export function Confirm({ title, text, typed, action, onClose, run }) {
  const [given, setGiven] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await run(given);
      onClose();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      <div class="asked">${text}</div>
      <${Field} wide label=${t("confirm.type", { name: typed })}>
        <input value=${given} autocomplete="off" spellcheck=${false} onInput=${(event) => setGiven(event.target.value)} /><//>
      <${Problem} error=${error} />
      <div class="buttons"><button type="button" onClick=${onClose}>${t("cancel")}</button>
        <button class="danger" disabled=${busy || given !== typed}>${action}</button></div>
    </form>
  <//>`;
}

export function Copy({ text, label }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(t("copied"));
    } catch {
      say(t("copy.failed"), "bad");
    }
  };
  return html`<button class="small" onClick=${copy}>${label || t("copy")}</button>`;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A line over time, and the same as a table for who does not see it. */
export function Chart({ title, series, unit = "", height = 120, as = number, limit }) {
  const box = useRef(null);
  const [theme, setTheme] = useState(0);
  const data = useMemo(() => [series.times.map((each) => each / 1000), series.values], [series]);
  useEffect(() => {
    const changed = () => setTheme((before) => before + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", changed);
    addEventListener("themechange", changed);
    return () => {
      dark.removeEventListener("change", changed);
      removeEventListener("themechange", changed);
    };
  }, []);
  const plot = useRef(null);
  useEffect(() => {
    const place = box.current;
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui", size: 44 };
    plot.current = new window.uPlot({
      width: place.clientWidth || 300,
      height,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      padding: [8, 8, 0, 0],
      scales: { y: { range: (_, low, high) => [0, limit || Math.max(1, (high || 0) * 1.15)] } },
      axes: [{ ...axis, size: 30, gap: 9, space: 80, values: (_, ticks) => ticks.map((each) => (ticks.length > 1 && ticks[1] - ticks[0] < 60 ? clock(each * 1000) : clock(each * 1000).slice(0, 5))) },
        { ...axis, space: 30, values: (_, ticks) => ticks.map((each) => as(each)) }],
      series: [{}, { stroke: colour("--accent"), width: 2, fill: colour("--accent-soft"), points: { show: data[0].length < 3 } }],
    }, data, place);
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: place.clientWidth || 300, height }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data), [data]);
  const last = [...series.times.keys()].slice(-5);
  return html`<figure class="chart">
    <div ref=${box} aria-hidden="true" class=${series.times.length < 2 ? "unseen" : ""}></div>
    ${series.times.length < 2 && html`<p class="chart-wait dim">${t("chart.wait")}</p>`}
    <figcaption class="sr">${title}
      <table><tbody>${last.map((at) => html`<tr><th scope="row">${clock(series.times[at])}</th><td>${series.values[at] === null ? t("unknown") : `${as(series.values[at])} ${unit}`}</td></tr>`)}</tbody></table>
    </figcaption>
  </figure>`;
}

/** A filter that is part of the address, set while typing stops. */
export function Filter({ value, onChange, label, type = "search", width }) {
  const [text, setText] = useState(value || "");
  const timer = useRef(null);
  useEffect(() => setText(value || ""), [value]);
  const typed = (event) => {
    const now = event.target.value;
    setText(now);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(now), 200);
  };
  return html`<input type=${type} class="filter" value=${text} placeholder=${label} aria-label=${label}
    spellcheck=${false} autocomplete="off" onInput=${typed} style=${width ? { width } : undefined} />`;
}

export function Select({ value, options, onChange, label }) {
  return html`<select aria-label=${label} value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}
  </select>`;
}

export const topicLink = (name, query) => link(["topics", name], query);
export const groupLink = (name, query) => link(["groups", name], query);
export const Seconds = ({ of }) => html`<${Figure} of=${of} as=${duration} />`;
export { go };
