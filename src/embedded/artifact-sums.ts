// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '1.21.4',
  goVersion: '1.26.8',
  /** Of the source that it is built of, with the settings of Go. */
  sourceSha256: '4cde6024b08fcf86bf4a5533895beca93b11c60f4fd2494f709dc51b02c50fd7',
  sha256: {
    'opa.wasm.br': 'bd0cd119a5ad15c56194d679106e2c09ccf935a1ab35c9bad4e4367d2c25997e',
    'wasm_exec.js': '0c949f4996f9a89698e4b5c586de32249c3b69b7baadb64d220073cc04acba14',
  },
  /** Of the program inside `opa.wasm.br`. */
  wasmSha256: '5aa2dd30ff3d1a5b0066fddf36d788e57b99f1aa73796ba2d079b66067febba7',
  wasmBytes: 55736481,
} as const;
