// What brokers keep from consumers for now: delayed messages, and open transactions.
import { html, useState, t, useApi, go, post, moment, number, duration, say } from "../lib/core.js";
import { Head, Tabs, Table, Problem, Loading, Empty, Filter, Confirm, Dialog, topicLink } from "../lib/ui.js";
import { One } from "./messages.js";

export function Waiting({ route, who }) {
  const tab = route.query.tab || "timed";
  const tabs = ["timed", "transactions"].map((each) => [each, t(`waiting.tab.${each}`)]);
  return html`<${Head} title=${t("nav.waiting")} sub=${t("waiting.sub")} />
    <${Tabs} label=${t("nav.waiting")} tabs=${tabs} now=${tab} parts=${["waiting"]} />
    ${tab === "timed" ? html`<${Timed} route=${route} who=${who} />` : html`<${Open} route=${route} who=${who} />`}
    ${route.query.message && html`<${One} id=${route.query.message} onClose=${() => go(["waiting"], { ...route.query, message: undefined })} />`}`;
}

function Timed({ route, who }) {
  const { query } = route;
  const { data, error, reload } = useApi("waiting/timed", { topic: query.topic });
  const [asking, setAsking] = useState(null);
  const now = data?.as_of_ms;
  const columns = [
    ["due", t("waiting.due"), (row) => html`<button class="link" onClick=${() => go(["waiting"], { ...query, message: row.offset_id })}>${moment(row.due_ms)}</button>`],
    ["in", t("waiting.in"), (row) => duration(Math.max(0, (row.due_ms - now) / 1000)), "right"],
    ["topic", t("topic"), (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>`],
    ["id", t("id"), (row) => html`<code class="wrap">${row.id}</code>`],
    ["broker", t("broker"), (row) => row.broker],
    ...(who.may_change ? [["cancel", html`<span class="sr">${t("waiting.cancel")}</span>`, (row) => html`<button class="small" onClick=${() => setAsking(row)}>${t("waiting.cancel")}</button>`]] : []),
  ];
  const cancel = async () => {
    try {
      await post("waiting/timed/cancel", { topic: asking.topic, handle: asking.handle });
      say(t("waiting.cancelled"));
      reload();
    } catch (problem) {
      say(problem.message, "bad");
    }
    setAsking(null);
  };
  return html`<div class="bar"><${Filter} label=${t("topic")} value=${query.topic} onChange=${(topic) => go(["waiting"], { ...query, topic }, { replace: true })} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("waiting.tab.timed")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.handle} />` : html`<${Empty}>${t("waiting.none")}<//>`)}
    ${data && !data.complete && html`<p>${t("list.cut")} <code>rocketpipe delayed list</code></p>`}
    ${asking && html`<${Dialog} title=${t("waiting.cancel")} onClose=${() => setAsking(null)}><p>${t("waiting.cancel.text", { topic: asking.topic, time: moment(asking.due_ms) })}</p>
      <div class="buttons"><button onClick=${() => setAsking(null)}>${t("cancel.not")}</button><button class="danger" onClick=${cancel}>${t("waiting.cancel")}</button></div><//>`}`;
}

function Open({ route, who }) {
  const { data, error, reload } = useApi("waiting/transactions");
  const [asking, setAsking] = useState(null);
  const columns = [
    ["age", t("waiting.age"), (row) => duration(row.age_s), "right"],
    ["topic", t("topic"), (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>`],
    ["group", t("waiting.group"), (row) => row.group],
    ["checks", t("waiting.checks"), (row) => number(row.checks), "right"],
    ["id", t("id"), (row) => html`<button class="link wrap" onClick=${() => go(["waiting"], { ...route.query, message: row.offset_id })}>${row.id}</button>`],
    ["broker", t("broker"), (row) => row.broker],
    ...(who.may_change ? [["decide", html`<span class="sr">${t("waiting.decide")}</span>`, (row) => html`<div class="pair"><button class="small" onClick=${() => setAsking({ row, commit: true })}>${t("waiting.commit")}</button><button class="small" onClick=${() => setAsking({ row, commit: false })}>${t("waiting.rollback")}</button></div>`]] : []),
  ];
  return html`<${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("waiting.tab.transactions")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.offset_id} />` : html`<${Empty}>${t("transactions.none")}<//>`)}
    ${data && !data.complete && html`<p>${t("list.cut")} <code>rocketpipe transaction list</code></p>`}
    ${asking && html`<${Confirm} title=${asking.commit ? t("waiting.commit") : t("waiting.rollback")} text=${t("waiting.decide.text", { group: asking.row.group })} typed=${asking.row.id} action=${asking.commit ? t("waiting.commit") : t("waiting.rollback")} onClose=${() => setAsking(null)}
      run=${async (confirm) => { await post("waiting/transactions/decide", { broker: asking.row.broker, id: asking.row.id, commit: asking.commit, confirm }); say(t("changed")); reload(); }} />`}`;
}
