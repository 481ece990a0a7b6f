// Who looks: by a key, a token, or the operator's issuer.
import { html, useState } from "../vendor/preact.js";
import { goAway, logIn, session } from "../http.js";
import { Fault } from "../parts.js";

export default function Login() {
  const [secret, setSecret] = useState("");
  const [fault, setFault] = useState(/** @type {Error | null} */ (null));
  if (session.value?.known) return html`<h1>Log in</h1><p>You are ${session.value.name}.</p>`;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await logIn(secret);
    } catch (error) {
      setFault(/** @type {Error} */ (error));
    }
  };
  return html`<h1>Log in</h1>
    <p>This service asks who calls. What you see is what your key may see.</p>
    ${session.value?.fault && html`<${Fault} error=${{ message: session.value.fault }} />`}
    ${session.value?.issuer && html`<p><a class="button" href="/explore/login" target="_self" onClick=${goAway}>Log in where you log in for this service</a></p>`}
    <form class="card" onSubmit=${submit}>
      <label>API key or token <input type="password" autocomplete="off" required value=${secret} onInput=${(/** @type {any} */ event) => setSecret(event.target.value)} /></label>
      <button class="main">Log in</button>
    </form>
    ${fault && html`<${Fault} error=${fault} />`}`;
}
