// What the schemas of the official SDK in TypeScript say of values: typescript_schemas.mjs SDK. Reads a list of
// [name of a schema, value]; writes the places of the first faults of each, an empty text where it takes the value.
import { text } from "node:stream/consumers";

const types = await import(process.argv[2] + "/dist/esm/types.js");
const { AjvJsonSchemaValidator } = await import(process.argv[2] + "/dist/esm/validation/ajv-provider.js");
const faults = JSON.parse(await text(process.stdin)).map(([name, value]) => {
  if (name === "compiles") {
    try {
      new AjvJsonSchemaValidator().getValidator(value);
      return "";
    } catch (error) {
      return String(error.message);
    }
  }
  const parsed = types[name].safeParse(value);
  return parsed.success ? "" : parsed.error.message;
});
console.log(JSON.stringify(faults));
