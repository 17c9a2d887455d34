// Send a message, or one again after a look at it.
import { html, useState, t, post, link, say } from "../lib/core.js";
import { Dialog, Field, Problem, Badge } from "../lib/ui.js";

const lines = (properties) => Object.entries(properties || {}).map(([name, value]) => `${name}=${value}`).join("\n");

export function Send({ first, onClose, onSent, title }) {
  const [given, setGiven] = useState({ topic: first.topic || "", body: first.binary ?? first.body ?? "", encoding: first.binary ? "base64" : "text", tags: first.tags || "", keys: first.keys || "", properties: lines(first.properties), delay: "" });
  const [error, setError] = useState(null);
  const [done, setDone] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (name) => (event) => setGiven({ ...given, [name]: event.target.value });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const properties = Object.fromEntries(given.properties.split("\n").filter(Boolean).map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
    }));
    try {
      const found = await post("messages", { topic: given.topic, body: given.body, encoding: given.encoding, tags: given.tags || null, keys: given.keys.split(" ").filter(Boolean), properties, delay_ms: Math.round(Number(given.delay || 0) * 1000) });
      setDone(found);
      say(t("sent", { place: `${found.broker}/${found.queue} @ ${found.offset}` }));
      onSent?.();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return html`<${Dialog} title=${title || t("send")} onClose=${onClose}><form onSubmit=${submit}>
    <${Field} wide label=${t("topic")}><input value=${given.topic} onInput=${set("topic")} required spellcheck=${false} /><//>
    <${Field} wide label=${t("message.body")}><textarea rows="7" value=${given.body} onInput=${set("body")} required spellcheck=${false}></textarea><//>
    <div class="form-grid">
      <${Field} label=${t("send.encoding")}><select value=${given.encoding} onChange=${set("encoding")}><option value="text" selected=${given.encoding === "text"}>${t("form.text")}</option><option value="base64" selected=${given.encoding === "base64"}>base64</option></select><//>
      <${Field} label=${t("tags")}><input value=${given.tags} onInput=${set("tags")} /><//>
      <${Field} label=${t("keys.word")}><input value=${given.keys} onInput=${set("keys")} /><//>
      <${Field} label=${t("send.delay")}><input type="number" min="0" max="259200" value=${given.delay} onInput=${set("delay")} /><//>
    </div>
    <${Field} wide label=${t("send.properties")}><textarea rows="2" value=${given.properties} onInput=${set("properties")} spellcheck=${false} placeholder="name=value"></textarea><//>
    <${Problem} error=${error} />
    ${done && html`<p role="status"><${Badge} kind="good">${t("sent", { place: `${done.broker}/${done.queue} @ ${done.offset}` })}<//> ${done.offset_id && !done.recall_handle && html`<a href=${link(["topics", done.topic], { tab: "messages", message: done.offset_id })} onClick=${onClose}>${t("show")}</a>`}</p>`}
    <div class="buttons"><button type="button" onClick=${onClose}>${t("close")}</button><button class="primary" disabled=${busy}>${t("send")}</button></div>
  </form><//>`;
}
