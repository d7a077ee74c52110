// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.21.0',
  goVersion: '1.26.8',
  sha256: {
    'opa.wasm.br': '508ab0c83bbe6390172821a7a2f2f5a9e563a6bd12feb92d40b28e0ebbb9ab97',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: '59d31ca84a20a0b09f44e87714acf5dc9c94171678acd65eef8a5fcdcbf1f162',
  wasmBytes: 55643658,
} as const;
