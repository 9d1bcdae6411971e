// Tenants: whom the service knows.

import { account, call } from "./api.js";
import { make } from "./dom.js";
import { form, secret } from "./parts.js";

export const view = { name: "access", title: "Access", build, refresh: async () => {} };

function build() {
  const add = form("", [
    { name: "name", label: "Name" },
    { name: "admin", label: "admin", kind: "check" },
  ], async (tenant) => secret("The token, which is shown only here:", (await call("POST /tenants", {}, tenant)).token), { send: "Add" });
  return [make("section", {}, make("h2", {}, "Tenants"), ...(account.role === "admin" ? [add] : []))];
}
