// A provider of OpenID Connect for tests: panva's oidc-provider with keys made at its start, on a free port of this machine.
// Arguments: the folder with node_modules, and the addresses it may send browsers back to. Prints its issuer as the first line.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [folder, ...redirect_uris] = process.argv.slice(2);
const { Provider } = createRequire(`${folder}/`)("oidc-provider");

const PEOPLE = {
  ann: { email: "Ann@Example.org", email_verified: true, preferred_username: "ann" },
  eve: { email: "ann@example.org", email_verified: false, preferred_username: "eve" },
  stranger: { email: "stranger@example.org", email_verified: true, preferred_username: "stranger" },
};
const key = (type, options) => generateKeyPairSync(type, options).privateKey.export({ format: "jwk" });
const client = (client_id, more) => ({ client_id, client_secret: "a secret: with + and %", redirect_uris, ...more });

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      client("cutline"),
      client("cutline-es", { id_token_signed_response_alg: "ES256" }),
      client("cutline-ed", { id_token_signed_response_alg: "EdDSA" }),
    ],
    jwks: { keys: [key("rsa", { modulusLength: 2048 }), key("ec", { namedCurve: "P-256" }), key("ed25519")] },
    cookies: { keys: ["of a test"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["preferred_username"] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
