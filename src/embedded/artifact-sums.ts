// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.22.3',
  goVersion: '1.26.8',
  /** Of the source that it is built of, with the settings of Go. */
  sourceSha256: '6a20975de2a9f6e5a0451254e850c83357b6da206c23c03975957da5d5226024',
  sha256: {
    'opa.wasm.br': 'f62dfa4856dbcffecf08028dfb0b1379d0005e5dd992bc912e34c73ff8c9d952',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: '218ffd2d21da52ebff0cc6f2562a6170b665b5baf58a7b9ec5d513447d01e968',
  wasmBytes: 56561267,
} as const;
