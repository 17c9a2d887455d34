// All topics: ten thousand of them scroll, and figures come for those on screen.
import { html, useState, t, useApi, go, post, moment, number, say } from "../lib/core.js";
import { Head, LongTable, useFigures, figureCell, Figure, Problem, Loading, Empty, Filter, Select, Dialog, Field, topicLink } from "../lib/ui.js";

export function Topics({ route, who }) {
  const { query } = route;
  const kind = query.kind || "user";
  const { data, error, reload } = useApi("topics", { q: query.q, kind });
  const [found, needs] = useFigures("topics/figures");
  const [making, setMaking] = useState(false);
  const set = (change) => go(["topics"], { ...query, ...change }, { replace: true });
  const columns = [
    ["name", t("topic.name"), (row) => html`<a class="name" href=${topicLink(row.name)}>${row.name}</a>`],
    ["type", t("topic.type"), (row) => figureCell(found, row.name, (each) => (each.type ? t(`type.${each.type}`) : "–"))],
    ["queues", t("topic.queues"), (row) => figureCell(found, row.name, (each) => number(each.queues)), "right"],
    ["rate", t("topic.rate"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.rate} />`), "right"],
    ["messages", t("topic.messages"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.messages} />`), "right"],
    ["last", t("topic.last"), (row) => figureCell(found, row.name, (each) => moment(each.last_ms))],
    ["groups", t("nav.groups"), (row) => figureCell(found, row.name, (each) => number(each.groups)), "right"],
  ];
  const kinds = ["user", "retry", "dead", "system", "all"].map((each) => [each, t(`kind.${each}`)]);
  return html`<${Head} title=${t("nav.topics")} sub=${data && t("count.of", { count: number(data.total) })}>
      ${who.may_change && html`<button class="primary" onClick=${() => setMaking(true)}>${t("topic.new")}</button>`}<//>
    <div class="bar">
      <${Filter} label=${t("filter.name")} value=${query.q} onChange=${(q) => set({ q })} />
      <${Select} label=${t("topic.kind")} value=${kind} options=${kinds} onChange=${(each) => set({ kind: each === "user" ? "" : each })} />
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length
      ? html`<${LongTable} label=${t("nav.topics")} columns=${columns} rows=${data.rows} needs=${needs} />`
      : html`<${Empty} hint=${query.q ? "" : "rocketpipe topic create orders --queues 4"}>${query.q ? t("topics.none.q") : t("topics.none")}<//>`)}
    ${making && html`<${NewTopic} onClose=${() => setMaking(false)} />`}`;
}

function NewTopic({ onClose }) {
  const [given, setGiven] = useState({ name: "", queues: 8, type: "" });
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("topics", { ...given, queues: Number(given.queues), type: given.type || null });
      say(t("topic.made", { name: given.name }));
      go(["topics", given.name]);
    } catch (problem) {
      setError(problem);
    }
  };
  const set = (name) => (event) => setGiven({ ...given, [name]: event.target.value });
  return html`<${Dialog} title=${t("topic.new")} onClose=${onClose}><form onSubmit=${submit}>
    <${Field} wide label=${t("topic.name")}><input value=${given.name} onInput=${set("name")} required spellcheck=${false} /><//>
    <${Field} wide label=${t("topic.queues")}><input type="number" min="1" max="1024" value=${given.queues} onInput=${set("queues")} /><//>
    <${Field} wide label=${t("topic.type")}><select value=${given.type} onChange=${set("type")}>
      <option value="">${t("type.any")}</option>${["NORMAL", "FIFO", "DELAY", "TRANSACTION"].map((each) => html`<option value=${each}>${t(`type.${each}`)}</option>`)}</select><//>
    <${Problem} error=${error} />
    <div class="buttons"><button type="button" onClick=${onClose}>${t("cancel")}</button><button class="primary">${t("create")}</button></div>
  </form><//>`;
}
