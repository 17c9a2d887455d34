// This console: what it is, who may do what here, and what was changed by it.
import { html, t, useApi, moment, zone } from "../lib/core.js";
import { Head, Card, Table, Badge, Problem, Loading, Empty } from "../lib/ui.js";

export function Settings({ who }) {
  const { data } = useApi("console");
  const { data: changes, error, reload } = useApi("changes", { limit: 200 });
  const now = data || who;
  const columns = [
    ["at", t("message.time"), (row) => moment(row.at_ms)],
    ["who", t("changes.who"), (row) => row.who],
    ["address", t("address"), (row) => row.address || "–"],
    ["what", t("changes.what"), (row) => html`<span class="wrap">${row.what}</span>`, "grow"],
    ["outcome", t("changes.outcome"), (row) => html`<${Badge} kind=${row.ok ? "good" : "bad"}><span class="wrap">${row.outcome}</span><//>`],
  ];
  const facts = [
    [t("version"), now.version],
    ["NameServer", now.name_servers || "–"],
    [t("settings.access"), now.guarded ? t("access.guarded") : t("access.open")],
    [t("settings.who"), now.who || t("settings.nobody")],
    [t("settings.may"), now.may_change ? t("may.change") : t("read.only")],
    [t("settings.bodies"), now.may_see_bodies ? t("yes") : t("no")],
    [t("settings.masked"), now.masked?.join(", ") || "–"],
    [t("settings.streams"), `${now.streams} / ${now.streams_most}`],
    [t("settings.zone"), zone()],
  ];
  return html`<${Head} title=${t("nav.settings")} />
    <${Card} title=${t("settings.console")}><dl class="properties">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//>
    <${Card} title=${t("changes")}>
      <${Problem} error=${error} retry=${reload} />
      ${!changes && !error && html`<${Loading} />`}
      ${changes && (changes.rows.length ? html`<${Table} label=${t("changes")} columns=${columns} rows=${changes.rows} />` : html`<${Empty}>${t("changes.none")}<//>`)}
    <//>`;
}
