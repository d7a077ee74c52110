// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.22.3',
  goVersion: '1.26.8',
  /** Of the source that it is built of, with the settings of Go. */
  sourceSha256: 'd678b660bd432da8bb9f6e27f4705b8fdacd484111d8bd3e114aadf509099c12',
  sha256: {
    'opa.wasm.br': '5992ee5147cd52f1b8cadd32b0e56564a560e083c3d289044e180315b445d658',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: '450d122a58c78101f756640350600dd9d3983ee7131adbb7ae129e3f6f35f33d',
  wasmBytes: 56558229,
} as const;
