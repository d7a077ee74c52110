// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.21.0',
  goVersion: '1.26.8',
  /** Of the source that it is built of, with the settings of Go. */
  sourceSha256: '9ccb1094e0d5e5dca162aaf59a812f2ab4ac72926a7079262a63aa53fb70f3cb',
  sha256: {
    'opa.wasm.br': 'ce284fe5ec4abc3e288f03e41c9aa275e528759f989e2bbf19035e0dcd24096e',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: 'e059815fa88257adfd27a93e9a2dc427b892f189d2eba9a3d43d2a8bd871770f',
  wasmBytes: 55730816,
} as const;
