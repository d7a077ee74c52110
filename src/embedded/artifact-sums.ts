// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.21.0',
  goVersion: '1.26.8',
  sha256: {
    'opa.wasm.br': '4f14b16f9468e5a96ccfa4ad682e092b6786728f278fc40ec2d960b6df8ef0a1',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: '0e609b6fa2e7dace3614fe0a89349317630d6eefe57767461e7f998ea863f980',
  wasmBytes: 55594917,
} as const;
