// Users and what they may do: made with a secret that is shown once, rotated, disabled, granted, explained.
import { html, useState, t, useApi, go, link, post, moment, number, say } from "../lib/core.js";
import { Head, Table, Card, Badge, Problem, Loading, Empty, Filter, Select, Field, Dialog, Confirm, Copy } from "../lib/ui.js";

const ACTIONS = ["Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All"];
const KINDS = ["Topic", "Group", "Cluster"];

export function Users({ route, who }) {
  if (!who.guarded) return html`<${Head} title=${t("nav.users")} /><${Empty} hint="rocketpipe serve --secure">${t("users.open")}<//>`;
  return route.parts[1] ? html`<${User} key=${route.parts[1]} name=${route.parts[1]} route=${route} who=${who} />` : html`<${All} route=${route} who=${who} />`;
}

const kind = (row) => (row.super ? html`<${Badge} kind="warn">${t("user.super")}<//>` : html`<${Badge}>${t("user.normal")}<//>`);
const state = (row) => (row.enabled ? html`<${Badge} kind="good">${t("user.enabled")}<//>` : html`<${Badge} kind="bad">${t("user.disabled")}<//>`);
const apart = (row) => [
  row.missing.length > 0 && t("user.missing", { servers: row.missing.join(", ") }),
  row.different.length > 0 && t("user.different", { servers: row.different.join(", ") }),
  row.silent.length > 0 && t("user.silent", { servers: row.silent.join(", ") }),
].filter(Boolean).join(" · ");

function All({ route, who }) {
  const { query } = route;
  const { data, error, reload } = useApi("users", { q: query.q, after: query.after });
  const [making, setMaking] = useState(false);
  const columns = [
    ["name", t("user"), (row) => html`<a class="name" href=${link(["users", row.name])}>${row.name}</a>`],
    ["kind", t("kind"), kind],
    ["state", t("state"), state],
    ["old", t("user.old.until"), (row) => moment(row.old_until_ms)],
    ["servers", t("user.servers"), (row) => (apart(row) ? html`<${Badge} kind="warn"><span class="wrap">${apart(row)}</span><//>` : t("user.everywhere", { count: row.servers.length })), "grow"],
  ];
  return html`<${Head} title=${t("nav.users")} sub=${data && t("count.of", { count: number(data.total) })}>
      ${who.may_change && html`<button class="primary" onClick=${() => setMaking(true)}>${t("user.new")}</button>`}<//>
    <div class="bar"><${Filter} label=${t("filter.name")} value=${query.q} onChange=${(q) => go(["users"], { q }, { replace: true })} /></div>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data?.without.length > 0 && html`<div class="problem" role="alert"><strong>${t("users.without", { servers: data.without.join(", ") })}</strong></div>`}
    ${data && (data.rows.length ? html`<${Table} label=${t("nav.users")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.name} onOpen=${(row) => go(["users", row.name])} />` : html`<${Empty}>${t("users.none")}<//>`)}
    ${data?.after && html`<a class="button" href=${link(["users"], { ...query, after: data.after })}>${t("next.page")}</a>`}
    ${making && html`<${NewUser} onClose=${() => { setMaking(false); reload(); }} />`}`;
}

/** A secret, for the only time that anybody is told it. */
function Told({ told, onClose }) {
  const failed = Object.entries(told.failed);
  return html`<${Dialog} title=${t("secret.of", { name: told.name })} onClose=${onClose}>
    <p>${t("secret.once")}</p>
    <pre class="body secret" tabindex="0" aria-label=${t("secret")}>${told.secret}</pre>
    <div class="buttons left"><${Copy} text=${told.secret} /></div>
    ${failed.length > 0 && html`<div class="problem" role="alert"><strong>${t("secret.partly")}</strong>${failed.map(([server, why]) => html`<p>${server}: ${why}</p>`)}</div>`}
    <div class="buttons"><button class="primary" onClick=${onClose}>${t("secret.kept")}</button></div>
  <//>`;
}

function NewUser({ onClose }) {
  const [name, setName] = useState("");
  const [all, setAll] = useState(false);
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(null);
  const [told, setTold] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      setTold(await post("users", { name, is_super: all, confirm: typed }));
    } catch (problem) {
      setError(problem);
    }
  };
  if (told) return html`<${Told} told=${told} onClose=${() => { onClose(); go(["users", told.name]); }} />`;
  return html`<${Dialog} title=${t("user.new")} onClose=${onClose}><form onSubmit=${submit}>
    <${Field} wide label=${t("user")} hint=${t("user.name.hint")}><input value=${name} onInput=${(event) => setName(event.target.value)} required autocomplete="off" spellcheck=${false} /><//>
    <label class="check"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} /> ${t("user.super.may")}</label>
    ${all && html`<${Field} wide label=${t("confirm.type", { name })}><input value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" spellcheck=${false} /><//>`}
    <${Problem} error=${error} />
    <div class="buttons"><button type="button" onClick=${onClose}>${t("cancel")}</button><button class="primary" disabled=${all && typed !== name}>${t("create")}</button></div>
  </form><//>`;
}

function User({ name, route, who }) {
  const path = `users/${encodeURIComponent(name)}`;
  const { data, error, reload } = useApi(path);
  const [doing, setDoing] = useState(null);
  const [hours, setHours] = useState(24);
  const [told, setTold] = useState(null);
  const close = () => setDoing(null);
  const able = (verb) => async (confirm) => {
    await post(`${path}/${verb}`, { confirm });
    say(t(`user.done.${verb}`, { name }));
    if (verb === "delete") go(["users"]);
    else reload();
    if (name === who.who && verb !== "enable") dispatchEvent(new Event("needslogin"));
  };
  const columns = [
    ["resource", t("right.resource"), (row) => html`<code class="wrap">${row.resource}</code>`],
    ["decision", t("right.decision"), (row) => html`<${Badge} kind=${row.decision === "Allow" ? "good" : "bad"}>${t(`right.${row.decision}`)}<//>`],
    ["actions", t("right.actions"), (row) => row.actions.join(", "), "grow"],
    ["from", t("right.from"), (row) => row.from.join(", ") || t("right.anywhere")],
    ["missing", t("user.servers"), (row) => (row.missing_at.length ? html`<${Badge} kind="warn"><span class="wrap">${t("user.missing", { servers: row.missing_at.join(", ") })}</span><//>` : "–")],
    ...(who.may_change ? [["revoke", html`<span class="sr">${t("right.revoke")}</span>`, (row) => html`<button class="small" aria-label=${`${t("right.revoke")} ${row.resource}`} onClick=${() => setDoing({ verb: "revoke", row })}>${t("right.revoke")}</button>`]] : []),
  ];
  const sub = data && html`${kind(data)} ${state(data)} ${data.old_until_ms && html`· ${t("user.old.until")} ${moment(data.old_until_ms)}`}`;
  return html`<${Head} title=${name} crumbs=${[[t("nav.users"), link(["users"])]]} sub=${sub}>
      ${data && who.may_change && html`
        <button onClick=${() => setDoing({ verb: "rotate" })}>${t("user.rotate")}</button>
        <button onClick=${() => setDoing({ verb: data.enabled ? "disable" : "enable" })}>${t(data.enabled ? "user.disable" : "user.enable")}</button>
        <button class="danger" onClick=${() => setDoing({ verb: "delete" })}>${t("delete")}</button>`}<//>
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && apart(data) && html`<div class="problem" role="alert"><strong class="wrap">${apart(data)}</strong></div>`}
    ${data && html`
      <${Card} title=${t("user.rights")}>
        ${data.super && html`<p>${t("user.super.says")}</p>`}
        ${data.rights.length ? html`<${Table} label=${t("user.rights")} columns=${columns} rows=${data.rights} />` : !data.super && html`<p class="dim">${t("user.rights.none")}</p>`}
      <//>
      ${who.may_change && html`<${Grant} path=${path} onDone=${reload} />`}
      <${Explain} path=${path} name=${name} route=${route} />`}
    ${doing?.verb === "rotate" && html`<${Confirm} title=${t("user.rotate")} typed=${name} action=${t("user.rotate")} onClose=${close}
      text=${html`<${Field} label=${t("user.old.hours")}><input type="number" min="0" max="8784" class="short" value=${hours} onInput=${(event) => setHours(event.target.value)} /><//>`}
      run=${async (confirm) => setTold(await post(`${path}/rotate`, { confirm, old_hours: Number(hours || 0) }))} />`}
    ${doing?.verb === "disable" && html`<${Confirm} title=${t("user.disable")} text=${t("user.disable.text")} typed=${name} action=${t("user.disable")} onClose=${close} run=${able("disable")} />`}
    ${doing?.verb === "enable" && html`<${Confirm} title=${t("user.enable")} text=${t("user.enable.text")} typed=${name} action=${t("user.enable")} onClose=${close} run=${able("enable")} />`}
    ${doing?.verb === "delete" && html`<${Confirm} title=${t("user.delete")} text=${t("user.delete.text", { count: data.rights.length })} typed=${name} action=${t("delete")} onClose=${close} run=${able("delete")} />`}
    ${doing?.verb === "revoke" && html`<${Confirm} title=${t("right.revoke")} text=${html`<code class="wrap">${doing.row.resource}</code> · ${doing.row.actions.join(", ")}`} typed=${name} action=${t("right.revoke")} onClose=${close}
      run=${async () => { await post(`${path}/revoke`, { resources: [doing.row.resource], part: doing.row.part }); say(t("right.revoked", { name })); reload(); }} />`}
    ${told && html`<${Told} told=${told} onClose=${() => { setTold(null); reload(); if (name === who.who) dispatchEvent(new Event("needslogin")); }} />`}`;
}

function Resource({ given, set, label }) {
  return html`<${Field} label=${t("right.kind")}><select value=${given.kind} onChange=${set("kind")}>${KINDS.map((each) => html`<option value=${each} selected=${each === given.kind}>${t(`right.kind.${each}`)}</option>`)}</select><//>
    <${Field} label=${label}><input value=${given.name} onInput=${set("name")} required autocomplete="off" spellcheck=${false} placeholder="orders" /><//>`;
}

function Grant({ path, onDone }) {
  const [given, setGiven] = useState({ kind: "Topic", name: "", actions: ["Pub"], sources: "", deny: "", replace: false });
  const [error, setError] = useState(null);
  const set = (name) => (event) => setGiven({ ...given, [name]: event.target.value });
  const toggle = (action) => setGiven({ ...given, actions: given.actions.includes(action) ? given.actions.filter((each) => each !== action) : [...given.actions, action] });
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      await post(`${path}/grant`, { resources: [`${given.kind}:${given.name}`], actions: given.actions, sources: given.sources.split(/[\s,]+/).filter(Boolean), deny: given.deny === "yes", replace: given.replace });
      say(t("right.granted", { resource: given.name }));
      setGiven({ ...given, name: "", replace: false });
      onDone();
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<${Card} title=${t("right.grant")}><form onSubmit=${submit}>
    <div class="bar">
      <${Field} label=${t("right.decision")}><${Select} label=${t("right.decision")} value=${given.deny} options=${[["", t("right.Allow")], ["yes", t("right.Deny")]]} onChange=${(deny) => setGiven({ ...given, deny })} /><//>
      <${Resource} given=${given} set=${set} label=${t("right.names")} />
      <${Field} label=${t("right.from")}><input value=${given.sources} onInput=${set("sources")} placeholder="10.1.0.0/16" spellcheck=${false} /><//>
    </div>
    <fieldset class="row"><legend>${t("right.actions")}</legend>${ACTIONS.map((each) => html`<label class="check"><input type="checkbox" checked=${given.actions.includes(each)} onChange=${() => toggle(each)} /> ${each}</label>`)}</fieldset>
    <label class="check"><input type="checkbox" checked=${given.replace} onChange=${(event) => setGiven({ ...given, replace: event.target.checked })} /> ${t("right.replace")}</label>
    <${Problem} error=${error} />
    <div class="buttons left"><button class="primary" disabled=${!given.actions.length || !given.name}>${given.deny ? t("right.deny.do") : t("right.grant.do")}</button></div>
  </form><//>`;
}

/** May it? The question is part of the address. */
function Explain({ path, name, route }) {
  const { query } = route;
  const [given, setGiven] = useState({ kind: query.kind || "Topic", name: query.name || "", action: query.action || "Pub", source: query.source || "" });
  const { data, error } = useApi(query.name && `${path}/explain`, { resource: `${query.kind || "Topic"}:${query.name}`, action: query.action || "Pub", source: query.source });
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const ask = (event) => {
    event.preventDefault();
    go(["users", name], given);
  };
  const yes = (allowed) => html`<${Badge} kind=${allowed ? "good" : "bad"}>${allowed ? t("yes") : t("no")}<//>`;
  return html`<${Card} title=${t("explain")}>
    <form class="bar" onSubmit=${ask}>
      <${Field} label=${t("right.action")}><select value=${given.action} onChange=${set("action")}>${ACTIONS.filter((each) => each !== "All").map((each) => html`<option value=${each} selected=${each === given.action}>${each}</option>`)}</select><//>
      <${Resource} given=${given} set=${set} label=${t("right.name")} />
      <${Field} label=${t("right.from")}><input value=${given.source} onInput=${set("source")} placeholder="10.1.2.3" spellcheck=${false} /><//>
      <button class="primary">${t("explain.do")}</button>
    </form>
    <${Problem} error=${error} />
    ${data && html`<div role="status">
      <p>${yes(data.allowed)} ${data.why}</p>
      ${!data.why && data.answers.map((answer) => html`
        ${data.answers.length > 1 && html`<h3 class="wrap">${answer.servers.join(", ")}</h3>`}
        ${answer.points.map((point) => html`<dl class="properties">
          <div><dt>${t("explain.asked")}</dt><dd>${yes(point.allowed)} <code class="wrap">${point.asked}</code></dd></div>
          ${point.needs !== point.asked && html`<div><dt>${t("explain.needs")}</dt><dd><code class="wrap">${point.needs}</code></dd></div>`}
          ${point.decided_by && html`<div><dt>${t("explain.decided")}</dt><dd><code class="wrap">${point.decided_by}</code></dd></div>`}
          <div><dt>${t("explain.because")}</dt><dd>${point.why}</dd></div>
          ${[...point.others, ...point.elsewhere].map((entry) => html`<div><dt>${t("explain.not")}</dt><dd><code class="wrap">${entry}</code></dd></div>`)}
        </dl>`)}`)}
      ${data.no_answer_from.length > 0 && html`<p>${t("user.silent", { servers: data.no_answer_from.join(", ") })}</p>`}
    </div>`}
  <//>`;
}
