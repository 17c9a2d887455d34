// One topic: its queues, its messages, its tail, who reads it, and its settings.
import { html, useState, t, useApi, go, link, post, moment, number, say } from "../lib/core.js";
import { Head, Tabs, Table, Card, Figure, Badge, Problem, Loading, Empty, Confirm, Field, figureCell, useFigures, Seconds, groupLink } from "../lib/ui.js";
import { Messages } from "./messages.js";
import { Tail } from "./tail.js";
import { Send } from "./send.js";

export function Topic({ route, who }) {
  const name = route.parts[1];
  const tab = route.query.tab || "queues";
  const { data, error, reload } = useApi(`topics/${encodeURIComponent(name)}`);
  const [sending, setSending] = useState(false);
  const parts = ["topics", name];
  const tabs = ["queues", "messages", "tail", "groups", "settings"].map((each) => [each, t(`topic.tab.${each}`)]);
  return html`<${Head} title=${name} crumbs=${[[t("nav.topics"), link(["topics"])]]}
      sub=${data && html`<${Figure} of=${data.messages} /> ${t("messages.word")} · ${t("queues.count", { count: data.queues.length })}${data.settings[0] ? ` · ${t(`type.${data.settings[0].type}`)}` : ""}`}>
      ${who.may_change && html`<button class="primary" onClick=${() => setSending(true)}>${t("send")}</button>`}<//>
    <${Tabs} label=${name} tabs=${tabs} now=${tab} parts=${parts} />
    <${Problem} error=${error} retry=${reload} />
    ${data && Object.entries(data.silent).map(([broker, reason]) => html`<div class="problem" role="alert"><strong>${t("broker.silent", { broker })}</strong><p>${reason}</p></div>`)}
    ${tab === "messages" && html`<${Messages} topic=${name} route=${route} parts=${parts} who=${who} />`}
    ${tab === "tail" && html`<${Tail} topic=${name} route=${route} parts=${parts} />`}
    ${tab === "groups" && html`<${Readers} topic=${name} />`}
    ${!data && !error && html`<${Loading} />`}
    ${data && tab === "queues" && html`<${Queues} data=${data} parts=${parts} />`}
    ${data && tab === "settings" && html`<${TopicSettings} data=${data} who=${who} reload=${reload} />`}
    ${sending && html`<${Send} first=${{ topic: name }} onClose=${() => setSending(false)} onSent=${reload} />`}`;
}

function Queues({ data, parts }) {
  const most = Math.max(1, ...data.queues.map((each) => each.messages));
  const columns = [
    ["broker", t("broker"), (row) => row.broker],
    ["queue", t("queue"), (row) => html`<a href=${link(parts, { tab: "messages", broker: row.broker, queue: row.queue })}>${row.queue}</a>`, "right"],
    ["first", t("queue.first"), (row) => number(row.first), "right"],
    ["end", t("queue.end"), (row) => number(row.end), "right"],
    ["messages", t("topic.messages"), (row) => number(row.messages), "right"],
    ["skew", t("queue.share"), (row) => html`<div class="share" aria-hidden="true"><span style=${{ width: `${(row.messages / most) * 100}%` }}></span></div><span class="sr">${number((row.messages / most) * 100)} %</span>`],
    ["last", t("topic.last"), (row) => moment(row.last_ms)],
  ];
  if (!data.queues.length) return html`<${Empty}>${t("queues.none")}<//>`;
  return html`<${Table} label=${t("topic.tab.queues")} columns=${columns} rows=${data.queues} rowKey=${(row) => `${row.broker}/${row.queue}`} />`;
}

function Readers({ topic }) {
  const { data, error, reload } = useApi(`topics/${encodeURIComponent(topic)}/groups`);
  const [found, needs] = useFigures("groups/figures");
  const rows = (data?.rows || []).map((name) => ({ name }));
  const columns = [
    ["name", t("group.name"), (row) => html`<a class="name" href=${groupLink(row.name)}>${row.name}</a>`],
    ["members", t("group.members"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.members} />`), "right"],
    ["lag", t("group.lag"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.lag} />`), "right"],
    ["lag_s", t("group.lag.s"), (row) => figureCell(found, row.name, (each) => html`<${Seconds} of=${each.lag_s} />`), "right"],
  ];
  if (data && rows.length) needs(rows.slice(0, 50));
  return html`<${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (rows.length ? html`<${Table} label=${t("nav.groups")} columns=${columns} rows=${rows} />` : html`<${Empty}>${t("readers.none")}<//>`)}
    ${data && !data.complete && html`<p>${t("list.cut")}</p>`}`;
}

function TopicSettings({ data, who, reload }) {
  const [deleting, setDeleting] = useState(false);
  const [changing, setChanging] = useState(false);
  const columns = [
    ["broker", t("broker"), (row) => row.broker],
    ["read", t("topic.read.queues"), (row) => row.read_queues, "right"],
    ["write", t("topic.write.queues"), (row) => row.write_queues, "right"],
    ["perm", t("topic.perm"), (row) => html`<${Badge} kind=${row.readable && row.writable ? "good" : "warn"}>${[row.readable && t("perm.read"), row.writable && t("perm.write")].filter(Boolean).join(" + ") || t("perm.none")}<//>`],
    ["type", t("topic.type"), (row) => t(`type.${row.type}`)],
    ["attributes", t("topic.attributes"), (row) => html`<code>${Object.entries(row.attributes).map(([key, value]) => `${key}=${value}`).join(" ") || "–"}</code>`],
  ];
  return html`<${Table} label=${t("topic.tab.settings")} columns=${columns} rows=${data.settings} />
    ${who.may_change ? html`<div class="buttons left">
      <button onClick=${() => setChanging(true)}>${t("change")}</button>
      <button class="danger" onClick=${() => setDeleting(true)}>${t("topic.delete")}</button></div>` : html`<p class="dim">${t("change.login")}</p>`}
    ${changing && html`<${ChangeTopic} data=${data} onClose=${() => setChanging(false)} onDone=${reload} />`}
    ${deleting && html`<${Confirm} title=${t("topic.delete")} text=${t("topic.delete.text")} typed=${data.name} action=${t("delete")} onClose=${() => setDeleting(false)}
      run=${async (confirm) => { await post(`topics/${encodeURIComponent(data.name)}/delete`, { confirm }); say(t("topic.deleted", { name: data.name })); go(["topics"]); }} />`}`;
}

function ChangeTopic({ data, onClose, onDone }) {
  const first = data.settings[0];
  const [given, setGiven] = useState({ read_queues: first.read_queues, write_queues: first.write_queues, readable: first.readable, writable: first.writable });
  const number = (name) => (event) => setGiven({ ...given, [name]: Number(event.target.value) });
  const flag = (name) => (event) => setGiven({ ...given, [name]: event.target.checked });
  const text = html`<span class="form-grid">
    <${Field} label=${t("topic.read.queues")}><input type="number" min="1" max="1024" value=${given.read_queues} onInput=${number("read_queues")} /><//>
    <${Field} label=${t("topic.write.queues")}><input type="number" min="1" max="1024" value=${given.write_queues} onInput=${number("write_queues")} /><//>
    <label class="check"><input type="checkbox" checked=${given.readable} onChange=${flag("readable")} /> ${t("perm.read")}</label>
    <label class="check"><input type="checkbox" checked=${given.writable} onChange=${flag("writable")} /> ${t("perm.write")}</label></span>`;
  return html`<${Confirm} title=${t("change")} text=${text} typed=${data.name} action=${t("change")} onClose=${onClose}
    run=${async (confirm) => { await post(`topics/${encodeURIComponent(data.name)}/settings`, { ...given, confirm }); say(t("changed")); onDone(); }} />`;
}
