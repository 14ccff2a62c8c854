// The server's routes. A server has a host, or a port, of its own: frames of outputs and the cookie know no prefix.

export class Refused extends Error {
  constructor(status, { message, hint, reason, by } = {}) {
    super(message ?? `The server answered ${status}`);
    Object.assign(this, { status, hint, reason, by });
  }
}

/** `lost` is called when the server wants a login; `failed` says why one with the address's token was refused. */
export const auth = { lost: () => {}, failed: null };

export async function request(method, path, body, headers = {}) {
  const isJson = body !== undefined && !(body instanceof Blob) && !(body instanceof FormData);
  let response;
  try {
    response = await fetch(`api/${path}`, {
      method, credentials: "same-origin", body: isJson ? JSON.stringify(body) : body,
      headers: { ...(isJson ? { "content-type": "application/json" } : {}), ...headers },
    });
  } catch {
    throw new Refused(0, { message: "The server cannot be reached" });
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "login") auth.lost();
  throw new Refused(response.status, told.error);
}

export const read = async (path) => (await request("GET", path)).json();
export const post = async (path, body) => {
  const response = await request("POST", path, body);
  return response.status === 204 ? null : response.json();
};

const part = encodeURIComponent;
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== "" && value !== null));

/** The command for what a person wrote as a question, as one to be planned first, or as code. */
export const written = (text, what) => ({ ask: { command: "submit", text }, plan: { command: "plan", text }, code: { command: "run", code: text } })[what];

/** One session's routes. */
export function routes(id) {
  const base = `sessions/${part(id)}`;
  const file = (path) => `${base}/files/${path.split("/").map(part).join("/")}`;
  const frame = (name) => `${base}/frames/${part(name)}`;
  const output = (cell, n) => `${base}/cells/${part(cell)}/outputs/${n}`;
  return {
    base,
    snapshot: () => read(base),
    end: () => request("DELETE", `${base}?${query({ as: NAME })}`),
    command: (command) => post(`${base}/commands`, { ...command, key: crypto.randomUUID?.() ?? String(Math.random()), as: NAME }),
    events: (after) => `api/${base}/events?${query({ after, as: NAME })}`,
    output: (cell, n, mime) => `api/${output(cell, n)}/${part(mime)}`,
    types: (cell, n) => read(output(cell, n)),
    html: (cell, n) => read(`${output(cell, n)}/html`),
    variables: (language) => read(`${base}/variables?${query({ language })}`),
    rows: (name, window) => read(`${frame(name)}?${query(window)}`),
    profile: (name, column) => read(`${frame(name)}/columns/${part(column)}`),
    exportFrame: (name, window) => `api/${frame(name)}/export?${query(window)}`,
    complete: (code, cursor) => read(`${base}/complete?${query({ code, cursor })}`),
    files: (path) => read(`${base}/files?${query({ path })}`),
    file: (path) => `api/${file(path)}`,
    readFile: (path, range) => request("GET", file(path), undefined, range ? { range } : {}),
    removeFile: (path) => request("DELETE", file(path)),
    drop(files, path = "") {
      const form = new FormData();
      for (const one of files) form.append("file", one, one.name);
      return request("POST", `${base}/files?${query({ path })}`, form);
    },
    notebook: (ending) => `api/${base}/notebook.${ending}`,
  };
}

/** Under which others see what this page does. A tab keeps its own. */
export const NAME = (() => {
  const known = sessionStorage.getItem("sponde.name");
  const name = known ?? `page ${Math.random().toString(36).slice(2, 6)}`;
  sessionStorage.setItem("sponde.name", name);
  return name;
})();
export const OWN = `${NAME} (web)`;

// ---- safe HTML that the server makes, kept

function kept(ask, keyOf) {
  const known = new Map();
  return (value) => {
    const key = keyOf(value);
    if (!known.has(key)) {
      if (known.size > 2000) known.clear();
      known.set(key, ask(value).catch(() => { known.delete(key); return null; }));
    }
    return known.get(key);
  };
}

let waiting = [];
/** Texts that are wanted at the same time are asked for together. */
export const markdown = kept((text) => new Promise((resolve, reject) => {
  waiting.push({ text, resolve, reject });
  if (waiting.length > 1) return;
  queueMicrotask(async () => {
    const now = waiting;
    waiting = [];
    try {
      const { htmls } = await post("markdown", { texts: now.map((it) => it.text) });
      now.forEach((it, index) => it.resolve(htmls[index]));
    } catch (error) {
      now.forEach((it) => it.reject(error));
    }
  });
}), (text) => text);

export const highlight = kept(async ({ code, language }) => (await post("highlight", { code, language })).html, ({ code, language }) => `${language}\n${code}`);
