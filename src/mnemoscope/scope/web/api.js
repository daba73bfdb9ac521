// Asks the server; what goes wrong becomes an error whose message a person can read.

async function answer(response) {
  let found = {};
  try {
    found = await response.json();
  } catch {
    throw new Error(`the server gave no readable answer (${response.status})`);
  }
  if (!response.ok) throw new Error(found.error || `the server refused (${response.status})`);
  return found;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error("the server does not answer: is mnemoscope scope still running?");
  }
}

export async function get(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return answer(await reach(`/api/${path}${text ? `?${text}` : ""}`));
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return answer(
    await reach(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
}

// A file of the folder of runs, as an address.
export function file(name) {
  return `/files/${name.split("/").map(encodeURIComponent).join("/")}`;
}

// Tells everybody who listens for "news" on the window how far studies are.
export function listen() {
  let source = null;
  const follow = () => {
    source?.close();
    source = null;
    // A browser keeps few connections to one server: a tab that nobody sees gives its own back.
    if (document.hidden) return;
    source = new EventSource("/api/progress");
    source.addEventListener("message", (event) => {
      dispatchEvent(new CustomEvent("news", { detail: JSON.parse(event.data) }));
    });
  };
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => source?.close());
  follow();
}
