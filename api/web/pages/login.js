// Who looks: by a key, a token, or the operator's issuer.
import { html, useState } from "../vendor/preact.js";
import { Form } from "../fields.js";
import { goAway, logIn, session } from "../http.js";
import { Fault } from "../parts.js";

export default function Login() {
  const [fault, setFault] = useState(/** @type {Error | null} */ (null));
  if (session.value?.known) return html`<h1>Log in</h1><p>You are ${session.value.name}.</p>`;
  return html`<h1>Log in</h1>
    <p>This service asks who calls. What you see is what your key may see.</p>
    ${session.value?.fault && html`<${Fault} error=${{ message: session.value.fault }} />`}
    ${session.value?.issuer && html`<p><a class="button" href="/explore/login" target="_self" onClick=${goAway}>Log in where you log in for this service</a></p>`}
    <${Form} class="card" button="Log in" act=${(/** @type {any} */ { secret }) => logIn(secret).catch(setFault)} fields=${[{ name: "secret", label: "API key or token", as: "password", autocomplete: "off", required: true }]} />
    ${fault && html`<${Fault} error=${fault} />`}`;
}
