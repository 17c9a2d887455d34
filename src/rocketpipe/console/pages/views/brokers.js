// Brokers: every copy with its role, how leaders fare, and the settings in force.
import { html, useState, t, useApi, go, link, post, number, bytes, duration, moment, say } from "../lib/core.js";
import { Head, Tabs, Table, Card, Badge, Figure, Problem, Loading, Empty, Filter, Chart, Confirm, Field } from "../lib/ui.js";

export function Brokers({ route, who }) {
  return route.parts[1] ? html`<${Broker} key=${route.parts[1]} name=${route.parts[1]} route=${route} who=${who} />` : html`<${All} />`;
}

function All() {
  const { data, error, reload } = useApi("brokers", {}, { every: 10000 });
  const columns = [
    ["name", t("broker"), (row) => html`<a class="name" href=${link(["brokers", row.name])}>${row.name}</a> <span class="dim">${row.cluster}</span>`],
    ["role", t("broker.role"), (row) => html`<${Badge} kind=${row.role === "leader" ? "good" : "plain"}>${t(`role.${row.role}`)}<//>`],
    ["address", t("address"), (row) => row.address],
    ["in", t("overview.in"), (row) => number(row.in), "right"],
    ["out", t("overview.out"), (row) => number(row.out), "right"],
    ["unsynced", t("broker.unsynced"), (row) => bytes(row.unsynced), "right"],
    ["behind", t("broker.behind"), (row) => (row.behind === null ? html`<${Figure} of=${{ unknown: row.problem || row.refused || t("broker.alone") }} />` : bytes(row.behind)), "right"],
    ["disk", t("overview.disk"), (row) => (row.disk === undefined ? "–" : `${number(row.disk)} %`), "right"],
    ["up", t("broker.up"), (row) => (row.boot_ms ? duration(Math.max(0, data.as_of_ms - row.boot_ms) / 1000) : "–"), "right"],
    ["version", t("version"), (row) => row.version || "–"],
  ];
  return html`<${Head} title=${t("nav.brokers")} />
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data?.rows.filter((row) => row.problem).map((row) => html`<div class="problem" role="alert"><strong>${t("broker.silent", { broker: `${row.name} ${row.address}` })}</strong><p>${row.problem}</p></div>`)}
    ${data && html`<${Table} label=${t("nav.brokers")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.address} />`}`;
}

function Broker({ name, route, who }) {
  const tab = route.query.tab || "now";
  const parts = ["brokers", name];
  const tabs = ["now", "settings"].map((each) => [each, t(`broker.tab.${each}`)]);
  return html`<${Head} title=${name} crumbs=${[[t("nav.brokers"), link(["brokers"])]]} />
    <${Tabs} label=${name} tabs=${tabs} now=${tab} parts=${parts} />
    ${tab === "now" ? html`<${Now} name=${name} />` : html`<${BrokerSettings} name=${name} route=${route} who=${who} />`}`;
}

function Now({ name }) {
  const { data, error, reload } = useApi(`brokers/${encodeURIComponent(name)}`, {}, { every: 10000 });
  const tile = (what, title, unit, limit) => html`<${Card} title=${title}><${Chart} title=${title} series=${data.series[what]} unit=${unit} limit=${limit} height=${120} /><//>`;
  return html`<${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="tiles">${tile("in", t("overview.in"), t("per.second"))}${tile("out", t("overview.out"), t("per.second"))}${tile("disk", t("overview.disk"), "%", 100)}</div>
      <${Card} title=${t("broker.facts")}><dl class="properties">${Object.entries(data.facts).map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl><//>`}`;
}

function BrokerSettings({ name, route, who }) {
  const { query } = route;
  const { data, error, reload } = useApi(`brokers/${encodeURIComponent(name)}/settings`, { q: query.q });
  const [changing, setChanging] = useState(null);
  const columns = [
    ["key", t("setting"), (row) => html`<code>${row.key}</code>`],
    ["value", t("value"), (row) => html`<span class="wrap">${row.value || "–"}</span>`, "grow"],
    ["live", t("setting.live"), (row) => (row.live === null ? html`<${Badge} kind="info">${t("unknown")}<//>` : row.live ? html`<${Badge} kind="good">${t("setting.live.yes")}<//>` : html`<span class="dim">${t("setting.live.no")}</span>`)],
    ...(who.may_change ? [["change", html`<span class="sr">${t("change")}</span>`, (row) => row.value !== "******" && row.live !== false && html`<button class="small" onClick=${() => setChanging({ ...row })}>${t("change")}</button>`]] : []),
  ];
  return html`<div class="bar"><${Filter} label=${t("filter.name")} value=${query.q} onChange=${(q) => go(["brokers", name], { ...query, q }, { replace: true })} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("broker.tab.settings")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.key} />` : html`<${Empty}>${t("settings.none")}<//>`)}
    ${changing && html`<${Confirm} title=${changing.key} typed=${changing.key} action=${t("change")} onClose=${() => setChanging(null)}
      text=${html`<p class="dim">${t("setting.live.kept")}</p><${Field} label=${t("value")}><input value=${changing.value} onInput=${(event) => setChanging({ ...changing, value: event.target.value })} /><//>`}
      run=${async (confirm) => { await post(`brokers/${encodeURIComponent(name)}/settings`, { key: changing.key, value: changing.value, confirm }); say(t("changed")); reload(); }} />`}`;
}
