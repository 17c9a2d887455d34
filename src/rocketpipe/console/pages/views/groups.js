// All groups, by name or by how far they are behind.
import { html, useState, t, useApi, go, number, post, say } from "../lib/core.js";
import { Head, LongTable, useFigures, figureCell, Figure, Badge, Problem, Loading, Empty, Filter, Select, Dialog, Field, Seconds, groupLink } from "../lib/ui.js";

const state = (members) => (members.value === undefined ? html`<${Badge} kind="info">${t("unknown")}<//>`
  : members.value ? html`<${Badge} kind="good">${t("state.online")}<//>` : html`<${Badge}>${t("state.offline")}<//>`);

export function Groups({ route, who }) {
  const { query } = route;
  const sort = query.sort || "name";
  const { data, error, reload } = useApi("groups", { q: query.q, sort, state: query.state, lag_over: query.over });
  const [asked, needs] = useFigures("groups/figures");
  const [making, setMaking] = useState(false);
  const set = (change) => go(["groups"], { ...query, ...change }, { replace: true });
  const has = data?.rows[0]?.lag !== undefined || data?.rows[0]?.problem !== undefined;
  const found = has ? Object.fromEntries(data.rows.map((row) => [row.name, row])) : asked;
  const columns = [
    ["name", t("group.name"), (row) => html`<a class="name" href=${groupLink(row.name)}>${row.name}</a>`],
    ["state", t("state"), (row) => figureCell(found, row.name, (each) => state(each.members))],
    ["members", t("group.members"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.members} />`), "right"],
    ["lag", t("group.lag"), (row) => figureCell(found, row.name, (each) => html`<${Figure} of=${each.lag} />`), "right"],
    ["lag_s", t("group.lag.s"), (row) => figureCell(found, row.name, (each) => html`<${Seconds} of=${each.lag_s} />`), "right"],
    ["rate", t("group.rate"), (row) => figureCell(found, row.name, (each) => number(each.rate)), "right"],
    ["topics", t("nav.topics"), (row) => figureCell(found, row.name, (each) => number(each.topics)), "right"],
  ];
  const sorts = ["name", "lag", "lag_s"].map((each) => [each, t(`sort.${each}`)]);
  const states = ["all", "online", "offline"].map((each) => [each, t(`state.${each}`)]);
  return html`<${Head} title=${t("nav.groups")} sub=${data && t("count.of", { count: number(data.total) })}>
      ${who.may_change && html`<button class="primary" onClick=${() => setMaking(true)}>${t("group.new")}</button>`}<//>
    <div class="bar">
      <${Filter} label=${t("filter.name")} value=${query.q} onChange=${(q) => set({ q })} />
      <${Select} label=${t("state")} value=${query.state || "all"} options=${states} onChange=${(each) => set({ state: each === "all" ? "" : each })} />
      <${Select} label=${t("sort")} value=${sort} options=${sorts} onChange=${(each) => set({ sort: each === "name" ? "" : each })} />
      <${Filter} type="number" label=${t("group.over")} value=${query.over} onChange=${(over) => set({ over })} width="12.5rem" />
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length
      ? html`<${LongTable} label=${t("nav.groups")} columns=${columns} rows=${data.rows} needs=${has ? undefined : needs} />`
      : html`<${Empty} hint=${query.q ? "" : "rocketpipe group create billing"}>${query.q || query.state || query.over ? t("groups.none.q") : t("groups.none")}<//>`)}
    ${making && html`<${NewGroup} onClose=${() => setMaking(false)} />`}`;
}

function NewGroup({ onClose }) {
  const [name, setName] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("groups", { name });
      say(t("group.made", { name }));
      go(["groups", name]);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<${Dialog} title=${t("group.new")} onClose=${onClose}><form onSubmit=${submit}>
    <${Field} wide label=${t("group.name")}><input value=${name} onInput=${(event) => setName(event.target.value)} required spellcheck=${false} /><//>
    <${Problem} error=${error} />
    <div class="buttons"><button type="button" onClick=${onClose}>${t("cancel")}</button><button class="primary">${t("create")}</button></div>
  </form><//>`;
}
