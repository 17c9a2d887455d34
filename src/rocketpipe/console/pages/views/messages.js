// Messages by time, offset, key or id: the address says which; one is shown beside them.
import { html, useState, useEffect, t, api, useApi, go, link, moment, number, bytes, toInput, fromInput, csv, saveAs, say, fromBase64, zone } from "../lib/core.js";
import { Table, Problem, Loading, Empty, Field, Copy, Badge, Dialog, groupLink } from "../lib/ui.js";
import { Send } from "./send.js";

const WAYS = ["time", "offset", "key", "id"];

export function Messages({ topic, route, parts, who }) {
  const { query } = route;
  const way = WAYS.includes(query.from) ? query.from : "time";
  const [draft, setDraft] = useState(query);
  const [more, setMore] = useState({ rows: [], after: null, scanned: 0 });
  const [going, setGoing] = useState(false);
  const params = { topic, from: way, begin: query.begin, end: query.end, broker: query.broker, queue: query.queue, offset: query.offset, key: query.key, id: query.id, tags: query.tags, sql: query.sql, contains: query.contains };
  const ready = (way !== "key" || query.key) && (way !== "id" || query.id);
  const { data, error, loading, reload } = useApi(ready && "messages", params);
  const key = JSON.stringify(params);
  useEffect(() => setDraft(query), [key]);
  useEffect(() => setMore({ rows: [], after: data?.after ?? null, scanned: data?.scanned ?? 0 }), [data]);
  const set = (name) => (event) => setDraft({ ...draft, [name]: event.target.value });
  const time = (name) => (event) => setDraft({ ...draft, [name]: fromInput(event.target.value) });
  const search = (event) => {
    event.preventDefault();
    go(parts, { ...draft, tab: "messages", message: undefined });
  };
  const goOn = async () => {
    setGoing(true);
    try {
      const next = await api("messages", { ...params, after: more.after });
      setMore({ rows: [...more.rows, ...next.rows], after: next.after, scanned: more.scanned + next.scanned });
    } catch (problem) {
      say(problem.message, "bad");
    }
    setGoing(false);
  };
  const rows = [...(data?.rows || []), ...more.rows];
  const open = (row) => go(parts, { ...query, message: row.offset_id });
  const columns = [
    ["time", t("message.time"), (row) => html`<button class="link" onClick=${() => open(row)}>${moment(row.stored_ms, { millis: true })}</button>`],
    ["queue", t("queue"), (row) => `${row.broker}/${row.queue}`],
    ["offset", t("offset"), (row) => number(row.offset), "right"],
    ["tags", t("tags"), (row) => row.tags || "–"],
    ["keys", t("keys.word"), (row) => row.keys.join(" ") || "–"],
    ["size", t("size"), (row) => bytes(row.size), "right"],
    ["preview", t("message.body"), (row) => html`<span class="preview">${row.preview ?? t("body.hidden")}</span>`, "grow"],
  ];
  return html`<form class="bar" onSubmit=${search}>
      <${Field} label=${t("find.by")}><select value=${draft.from || "time"} onChange=${set("from")}>
        ${WAYS.map((each) => html`<option value=${each} selected=${(draft.from || "time") === each}>${t(`find.${each}`)}</option>`)}</select><//>
      ${(draft.from || "time") === "time" && html`
        <${Field} label=${t("find.begin")}><input type="datetime-local" step="1" value=${toInput(draft.begin)} onInput=${time("begin")} /><//>
        <${Field} label=${t("find.end")}><input type="datetime-local" step="1" value=${toInput(draft.end)} onInput=${time("end")} /><//>`}
      ${draft.from === "offset" && html`
        <${Field} label=${t("broker")}><input size="10" value=${draft.broker || ""} onInput=${set("broker")} /><//>
        <${Field} label=${t("queue")}><input type="number" min="0" class="short" value=${draft.queue ?? ""} onInput=${set("queue")} /><//>
        <${Field} label=${t("offset")}><input type="number" min="0" class="short" value=${draft.offset ?? ""} onInput=${set("offset")} /><//>`}
      ${draft.from === "key" && html`<${Field} label=${t("key")}><input value=${draft.key || ""} onInput=${set("key")} required /><//>`}
      ${draft.from === "id" && html`<${Field} label=${t("id")}><input size="36" value=${draft.id || ""} onInput=${set("id")} required /><//>`}
      ${draft.from !== "id" && html`
        <${Field} label=${t("tags")}><input size="10" value=${draft.tags || ""} onInput=${set("tags")} /><//>
        <${Field} label="SQL92"><input size="14" value=${draft.sql || ""} placeholder="total > 3" onInput=${set("sql")} spellcheck=${false} /><//>
        <${Field} label=${t("contains")}><input size="12" value=${draft.contains || ""} onInput=${set("contains")} /><//>`}
      <button class="primary">${t("search.do")}</button>
    </form>
    <${Problem} error=${error} retry=${reload} />
    <div class="result-line" role="status">
      ${loading && html`<span class="spinner" aria-hidden="true"></span>`}
      ${data && html`<span>${data.of === null || data.of === undefined ? t("scanned", { count: number(more.scanned) }) : t("scanned.of", { count: number(more.scanned), of: number(data.of) })}${data.complete || !more.after ? ` · ${t("complete")}` : ""}</span>`}
      ${data && !data.complete && more.after && html`<button class="small" onClick=${goOn} disabled=${going}>${t("go.on")} ▸</button>`}
      ${query.queue !== undefined && way === "time" && html`<${Badge}>${query.broker}/${query.queue}<//>`}
      ${rows.length > 0 && html`<span class="spread"></span>
        <button class="small" onClick=${() => saveAs(`${topic}.jsonl`, "application/x-ndjson", rows.map((row) => JSON.stringify(row)).join("\n"))}>JSON</button>
        <button class="small" onClick=${() => saveAs(`${topic}.csv`, "text/csv", csv(["stored_ms", "broker", "queue", "offset", "tags", "keys", "size", "id", "preview"], rows))}>CSV</button>`}
      <span class="dim">${zone()}</span>
    </div>
    ${data && rows.length === 0 && html`<${Empty}>${data.complete ? t("messages.none") : t("messages.none.yet")}<//>`}
    ${rows.length > 0 && html`<${Table} label=${t("topic.tab.messages")} columns=${columns} rows=${rows} rowKey=${(row) => row.offset_id} onOpen=${open} chosen=${(row) => row.offset_id === query.message} />`}
    ${query.message && html`<${One} id=${query.message} who=${who} onClose=${() => go(parts, { ...query, message: undefined })} />`}`;
}

function hex(body) {
  const lines = [];
  for (let at = 0; at < body.length && at < 16384; at += 16) {
    const part = body.slice(at, at + 16);
    const codes = [...part].map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = [...part].map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${codes.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** A body in its forms: the first that fits is shown. */
export function forms(body) {
  const found = {};
  let text = null;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    text = null;
  }
  if (text !== null) {
    try {
      const value = JSON.parse(text);
      if (typeof value === "object" && value !== null) found.json = JSON.stringify(value, null, 2);
    } catch {
      // It is text, and no JSON.
    }
  }
  found.text = text ?? new TextDecoder().decode(body);
  found.hex = hex(body);
  return [found, found.json ? "json" : text === null ? "hex" : "text"];
}

export function One({ id, onClose, who }) {
  const { data, error } = useApi(`messages/${encodeURIComponent(id)}`);
  const [form, setForm] = useState(null);
  const [again, setAgain] = useState(false);
  const body = data?.body !== undefined && data?.body !== null ? fromBase64(data.body) : null;
  const [found, usual] = body ? forms(body) : [{}, "text"];
  const now = form && found[form] ? form : usual;
  const title = data ? `${data.topic} · ${data.broker}/${data.queue} @ ${data.offset}` : t("message");
  return html`<${Dialog} wide title=${title} onClose=${onClose}>
    <${Problem} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`
      <dl class="facts">
        <div><dt>${t("id")}</dt><dd><code class="wrap">${data.id}</code></dd></div>
        <div><dt>${t("message.stored")}</dt><dd>${moment(data.stored_ms, { millis: true })}</dd></div>
        <div><dt>${t("message.born")}</dt><dd>${moment(data.born_ms, { millis: true })} · ${data.born_host}</dd></div>
        <div><dt>${t("tags")}</dt><dd>${data.tags || "–"}</dd></div>
        <div><dt>${t("keys.word")}</dt><dd class="wrap">${data.keys.join(" ") || "–"}</dd></div>
        <div><dt>${t("size")}</dt><dd>${bytes(data.body_bytes ?? data.size)}</dd></div>
      </dl>
      <div class="bar tight">
        <div class="segments" role="group" aria-label=${t("message.form")}>${["json", "text", "hex"].filter((each) => found[each] !== undefined).map((each) => html`<button aria-pressed=${each === now} onClick=${() => setForm(each)}>${each === "json" ? "JSON" : t(`form.${each}`)}</button>`)}</div>
        ${body && html`<${Copy} text=${found[now]} />`}
        ${body && html`<a class="button small" href=${`api/1/messages/${encodeURIComponent(data.offset_id)}/body`} download>${t("download")}</a>`}
        <${Copy} text=${location.href} label=${t("copy.link")} />
        <a class="button small" href=${link(["traces"], { id: data.id })}>${t("trace")}</a>
        ${who?.may_change && body && !data.masked && html`<button class="small" onClick=${() => setAgain(true)}>${t("send.again")}</button>`}
      </div>
      ${body ? html`<pre class="body" tabindex="0" aria-label=${t("message.body")}>${found[now]}</pre>` : html`<p class="dim">${data.why}</p>`}
      ${data.masked && html`<p class="dim">${t("body.masked")}</p>`}
      ${data.cut && html`<p class="dim">${t("body.cut", { size: bytes(data.body_bytes) })}</p>`}
      <details><summary>${t("properties")} (${Object.keys(data.properties).length})</summary>
        <dl class="properties">${Object.entries(data.properties).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></details>
      <${ReadBy} id=${id} />`}
    ${again && html`<${Send} title=${t("send.again")} first=${{ topic: data.topic.replace(/^%(RETRY|DLQ)%.*/, ""), body: found.text, binary: usual === "hex" ? data.body : null, tags: data.tags || "", keys: data.keys.join(" "), properties: own(data.properties) }} onClose=${() => setAgain(false)} />`}
  <//>`;
}

// Names in capitals are RocketMQ's own, which a send writes itself.
const own = (properties) => Object.fromEntries(Object.entries(properties).filter(([name]) => !/^[A-Z0-9_]+$/.test(name) && !name.startsWith("__")));

function ReadBy({ id }) {
  const [open, setOpen] = useState(false);
  const { data, error } = useApi(open && `messages/${encodeURIComponent(id)}/readers`);
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>${t("read.by")}</summary>
    <${Problem} error=${error} />
    ${data && (data.rows.length === 0 ? html`<p class="dim">${t("readers.none")}</p>` : html`<ul class="listed">${data.rows.map((row) => html`<li>
      <${Badge} kind=${row.read === null ? "info" : row.read ? "good" : "plain"}>${row.read === null ? t("unknown") : row.read ? t("read.yes") : t("read.no")}<//> <a href=${groupLink(row.group)}>${row.group}</a></li>`)}</ul>`)}
  </details>`;
}
