// A topic as it grows: the newest on top, as many as one can read, and how many were left out.
import { html, useState, useEffect, useRef, t, useLive, go, moment, number, bytes } from "../lib/core.js";
import { Table, Filter, Empty, Badge, Problem } from "../lib/ui.js";
import { One } from "./messages.js";

const KEPT = 1000;
const SHOWN = 200;

export function Tail({ topic, route, parts }) {
  const { query } = route;
  const [rows, setRows] = useState([]);
  const [paused, setPaused] = useState(false);
  const [counts, setCounts] = useState({ shown: 0, skipped: 0, held: 0 });
  const [state, setState] = useState("wait");
  const [problem, setProblem] = useState(null);
  const now = useRef(paused);
  now.current = paused;
  useLive(`tail:${topic}`, { tags: query.tags, contains: query.contains }, {
    tail: (news) => {
      setState("open");
      setProblem(null);
      if (now.current) {
        setCounts((before) => ({ ...before, held: before.held + news.rows.length + news.skipped }));
        return;
      }
      setCounts((before) => ({ ...before, shown: before.shown + news.rows.length, skipped: before.skipped + news.skipped }));
      setRows((before) => [...news.rows.slice().reverse(), ...before].slice(0, KEPT));
    },
    problem: ({ cause }) => setProblem(new Error(cause)),
    lost: () => setState("lost"),
  });
  useEffect(() => {
    const toggle = () => setPaused((before) => !before);
    addEventListener("pause", toggle);
    return () => removeEventListener("pause", toggle);
  }, []);
  const set = (change) => go(parts, { ...query, ...change }, { replace: true });
  const columns = [
    ["time", t("message.time"), (row) => html`<button class="link" onClick=${() => set({ message: row.offset_id })}>${moment(row.stored_ms, { millis: true })}</button>`],
    ["queue", t("queue"), (row) => `${row.broker}/${row.queue} @ ${row.offset}`],
    ["tags", t("tags"), (row) => row.tags || "–"],
    ["keys", t("keys.word"), (row) => row.keys.join(" ") || "–"],
    ["size", t("size"), (row) => bytes(row.size), "right"],
    ["preview", t("message.body"), (row) => html`<span class="preview">${row.preview ?? t("body.hidden")}</span>`, "grow"],
  ];
  return html`<div class="bar">
      <button class=${paused ? "primary" : ""} aria-pressed=${paused} onClick=${() => { setPaused(!paused); if (paused) setCounts({ ...counts, held: 0 }); }}>${paused ? t("tail.go") : t("tail.pause")}</button>
      <${Badge} kind=${state === "open" ? "good" : state === "lost" ? "warn" : "plain"}>${t(`tail.${state}`)}<//>
      <span>${t("tail.counts", { shown: number(counts.shown), skipped: number(counts.skipped) })}${paused && counts.held ? ` · ${t("tail.held", { count: number(counts.held) })}` : ""}</span>
      <span class="spread"></span>
      <${Filter} label=${t("tags")} value=${query.tags} onChange=${(tags) => set({ tags })} width="9rem" />
      <${Filter} label=${t("contains")} value=${query.contains} onChange=${(contains) => set({ contains })} width="11rem" />
    </div>
    <${Problem} error=${problem} />
    ${rows.length === 0 ? html`<${Empty}>${t("tail.empty")}<//>` : html`<${Table} label=${t("topic.tab.tail")} columns=${columns} rows=${rows.slice(0, SHOWN)} rowKey=${(row) => row.offset_id} />`}
    ${query.message && html`<${One} id=${query.message} onClose=${() => set({ message: undefined })} />`}`;
}
