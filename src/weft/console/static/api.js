// Calls to the node. Every one has the rights of the key that signed in; the node decides.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function answered(response) {
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({ error: `the node answered ${response.status}` }));
  if (!response.ok) throw new Refused(response.status, body.error || `the node answered ${response.status}`);
  return body;
}

export async function get(name, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return answered(await fetch(`/api/${name}${query ? `?${query}` : ""}`, { credentials: "same-origin" }));
}

export async function post(name, body) {
  const headers = { "content-type": "application/json", "x-weft-console": "1" };
  return answered(await fetch(`/api/${name}`, { method: "POST", headers, credentials: "same-origin", body: JSON.stringify(body) }));
}

// Server-sent events, opened again after a pause when the node or the network is gone. Returns how to close it.
export function stream(name, parameters, hear, state) {
  let source = null, timer = null, closed = false;
  const open = () => {
    const query = new URLSearchParams(parameters).toString();
    source = new EventSource(`/api/${name}${query ? `?${query}` : ""}`);
    source.onopen = () => state(true, "");
    source.onerror = () => again("the node does not answer");
    for (const [event, take] of Object.entries(hear)) source.addEventListener(event, (message) => take(JSON.parse(message.data)));
    source.addEventListener("over", (message) => again(JSON.parse(message.data).why));
  };
  const again = (why) => {
    source.close();
    state(false, why);
    if (!closed) timer = setTimeout(open, 2000);
  };
  open();
  return () => {
    closed = true;
    clearTimeout(timer);
    source.close();
  };
}
