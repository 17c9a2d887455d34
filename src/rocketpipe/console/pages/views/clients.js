// Who is connected: consumers by their groups, producers by their brokers.
import { html, t, useApi, go, link } from "../lib/core.js";
import { Head, Table, Problem, Loading, Empty, Filter, Select, groupLink } from "../lib/ui.js";
import { Client } from "./group.js";

export function Clients({ route }) {
  const { query } = route;
  const kind = query.kind || "consumer";
  const { data, error, reload } = useApi("clients", { kind, q: query.q, after: query.after });
  const set = (change) => go(["clients"], { ...query, after: undefined, ...change }, { replace: true });
  const columns = [
    ["id", t("client"), (row) => (kind === "consumer" ? html`<a class="name" href=${link(["clients"], { ...query, client: row.id, group: row.group })}>${row.id}</a>` : html`<span class="name">${row.id}</span>`)],
    ["group", t("group"), (row) => (kind === "consumer" ? html`<a href=${groupLink(row.group)}>${row.group}</a>` : row.group)],
    ["language", t("client.language"), (row) => row.language || "–"],
    ["version", t("version"), (row) => row.version, "right"],
    ["address", t("address"), (row) => row.address || "–"],
    ["brokers", t("nav.brokers"), (row) => row.brokers.join(", ")],
  ];
  const kinds = ["consumer", "producer"].map((each) => [each, t(`client.${each}`)]);
  return html`<${Head} title=${t("nav.clients")} />
    <div class="bar">
      <${Select} label=${t("kind")} value=${kind} options=${kinds} onChange=${(each) => set({ kind: each })} />
      <${Filter} label=${t("group")} value=${query.q} onChange=${(q) => set({ q })} />
      ${data?.of !== undefined && html`<span class="dim">${t("clients.scanned", { count: data.scanned, of: data.of })}</span>`}
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${Object.entries(data?.silent || {}).map(([broker, reason]) => html`<div class="problem" role="alert"><strong>${t("broker.silent", { broker })}</strong><p>${reason}</p></div>`)}
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("nav.clients")} columns=${columns} rows=${data.rows} rowKey=${(row) => `${row.group} ${row.id}`} />` : html`<${Empty}>${t("clients.none")}<//>`)}
    ${data?.after && html`<a class="button" href=${link(["clients"], { ...query, after: data.after })}>${t("next.page")}</a>`}
    ${query.client && html`<${Client} group=${query.group} id=${query.client} onClose=${() => set({ client: undefined, group: undefined })} />`}`;
}
