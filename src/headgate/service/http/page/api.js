// The REST interface: one function for every operation. An operation is written as the description of the interface has it,
// "PUT /sources/{name}/grants/{reader}"; a test compares the two.

const KEY = "headgate-token";

export const account = { token: localStorage.getItem(KEY) || "", tenant: "", role: "" };

export function enter(token) {
  account.token = token;
  if (token) localStorage.setItem(KEY, token); else localStorage.removeItem(KEY);
}

export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// `names` fill the braces of the path; those that are left are its parameters.
export async function call(operation, names = {}, body) {
  const [method, pattern] = operation.split(" "), rest = new Map(Object.entries(names));
  const path = pattern.replace(/\{(\w+)\}/g, (_, name) => {
    const value = rest.get(name);
    rest.delete(name);
    return encodeURIComponent(value);
  });
  const parameters = new URLSearchParams([...rest].filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const options = { method, headers: { Authorization: `Bearer ${account.token}` } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path + (parameters.size ? `?${parameters}` : ""), options);
  const text = await answer.text();
  let data = {};
  try { data = text ? JSON.parse(text) : {}; } catch { data = { message: text.slice(0, 300) }; }
  if (!answer.ok) throw new Refusal(data.message || answer.statusText || `status ${answer.status}`, answer.status);
  return data;
}

export const may = (role) => account.role === "admin" || role === "reader" || account.role === role;
