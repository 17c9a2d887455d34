// Dead letters: which groups have any; one's letters, chosen and given back, each with its outcome.
import { html, useState, useEffect, t, api, useApi, go, link, post, moment, number, bytes, say } from "../lib/core.js";
import { Head, Table, Figure, Badge, Problem, Loading, Empty, Filter, Select, groupLink, topicLink } from "../lib/ui.js";
import { One } from "./messages.js";

export function DeadLetters({ route, who }) {
  return route.parts[1] ? html`<${Letters} key=${route.parts[1]} group=${route.parts[1]} route=${route} who=${who} />` : html`<${WithLetters} route=${route} />`;
}

function WithLetters({ route }) {
  const { data, error, reload } = useApi("dlq", { q: route.query.q, after: route.query.after });
  const columns = [
    ["group", t("group.name"), (row) => html`<a class="name" href=${link(["dlq", row.group])}>${row.group}</a>`],
    ["letters", t("dlq.letters"), (row) => html`<${Figure} of=${row.letters} />`, "right"],
  ];
  return html`<${Head} title=${t("nav.dlq")} sub=${t("dlq.sub")} />
    <div class="bar"><${Filter} label=${t("filter.name")} value=${route.query.q} onChange=${(q) => go(["dlq"], { q }, { replace: true })} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("nav.dlq")} columns=${columns} rows=${data.rows} onOpen=${(row) => go(["dlq", row.group])} />` : html`<${Empty}>${t("dlq.none")}<//>`)}
    ${data?.after && html`<a class="button" href=${link(["dlq"], { ...route.query, after: data.after })}>${t("next.page")}</a>`}`;
}

const OUTCOMES = { replayed: "good", "replayed before": "info", failed: "bad" };

function Letters({ group, route, who }) {
  const { data, error, reload } = useApi(`dlq/${encodeURIComponent(group)}`);
  const [more, setMore] = useState({ rows: [], after: null });
  const [chosen, setChosen] = useState(new Set());
  const [outcomes, setOutcomes] = useState({});
  const [to, setTo] = useState("group");
  const [rate, setRate] = useState(10);
  const [busy, setBusy] = useState(false);
  useEffect(() => setMore({ rows: [], after: data?.after ?? null }), [data]);
  const rows = [...(data?.rows || []), ...more.rows];
  const goOn = async () => {
    const next = await api(`dlq/${encodeURIComponent(group)}`, { after: more.after });
    setMore({ rows: [...more.rows, ...next.rows], after: next.after });
  };
  const toggle = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const replay = async () => {
    setBusy(true);
    try {
      const found = await post(`dlq/${encodeURIComponent(group)}/replay`, { ids: [...chosen].slice(0, 200), to, rate: Number(rate) });
      setOutcomes({ ...outcomes, ...Object.fromEntries(found.rows.map((row) => [row.offset_id, row])) });
      setChosen(new Set([...chosen].filter((id) => found.rows.find((row) => row.offset_id === id)?.outcome === "failed" || !found.rows.some((row) => row.offset_id === id))));
      say(t("dlq.outcome", { replayed: found.replayed, before: found.before, failed: found.failed }), found.failed ? "bad" : "good");
    } catch (problem) {
      say(`${problem.message} ${problem.next || ""}`, "bad");
    }
    setBusy(false);
  };
  const all = rows.length > 0 && rows.every((row) => chosen.has(row.offset_id));
  const outcome = (row) => {
    const done = outcomes[row.offset_id];
    if (done) return html`<${Badge} kind=${OUTCOMES[done.outcome]}>${t(`outcome.${done.outcome}`)}<//> ${done.reason && html`<span class="wrap">${done.reason}</span>`}`;
    if (row.replayed === null) return html`<${Badge} kind="info">${t("unknown")}<//>`;
    return row.replayed ? html`<${Badge} kind="info">${t("outcome.replayed before")}<//>` : html`<span class="dim">${t("dlq.not.yet")}</span>`;
  };
  const columns = [
    ...(who.may_change ? [["choose", html`<input type="checkbox" aria-label=${t("choose.all")} checked=${all} onChange=${() => setChosen(all ? new Set() : new Set(rows.map((row) => row.offset_id)))} />`,
      (row) => html`<input type="checkbox" aria-label=${t("choose", { id: row.id })} checked=${chosen.has(row.offset_id)} onChange=${() => toggle(row.offset_id)} />`]] : []),
    ["time", t("message.time"), (row) => html`<button class="link" onClick=${() => go(["dlq", group], { message: row.offset_id })}>${moment(row.stored_ms)}</button>`],
    ["origin", t("dlq.origin"), (row) => (row.origin ? html`<a href=${topicLink(row.origin)}>${row.origin}</a>` : "–")],
    ["tries", t("dlq.tries"), (row) => number(row.tries), "right"],
    ["keys", t("keys.word"), (row) => row.keys.join(" ") || "–"],
    ["size", t("size"), (row) => bytes(row.size), "right"],
    ["preview", t("message.body"), (row) => html`<span class="preview">${row.preview ?? t("body.hidden")}</span>`, "grow"],
    ["outcome", t("dlq.replayed"), outcome],
  ];
  return html`<${Head} title=${group} crumbs=${[[t("nav.dlq"), link(["dlq"])]]} sub=${data && t("dlq.count", { count: number(data.total) })}>
      <a class="button" href=${groupLink(group)}>${t("group")}</a><//>
    ${who.may_change && html`<div class="bar" role="group" aria-label=${t("dlq.replay")}>
      <strong>${t("dlq.chosen", { count: chosen.size })}</strong>
      <${Select} label=${t("dlq.to")} value=${to} options=${[["group", t("dlq.to.group")], ["topic", t("dlq.to.topic")]]} onChange=${setTo} />
      <label class="inline">≤ <input type="number" min="1" max="1000" class="short" value=${rate} onInput=${(event) => setRate(event.target.value)} aria-label=${t("dlq.rate")} /> /s</label>
      <button class="primary" disabled=${busy || chosen.size === 0} onClick=${replay}>${busy ? t("working") : t("dlq.replay")}</button>
    </div>`}
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (rows.length ? html`<${Table} label=${t("dlq.letters")} columns=${columns} rows=${rows} rowKey=${(row) => row.offset_id} />` : html`<${Empty}>${t("dlq.none.group")}<//>`)}
    ${more.after && html`<button onClick=${goOn}>${t("go.on")} ▸</button>`}
    ${route.query.message && html`<${One} id=${route.query.message} who=${who} onClose=${() => go(["dlq", group])} />`}`;
}
