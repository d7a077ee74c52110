import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import * as z from 'zod';
import { repoRoot } from '../support/repo.js';

/** Documents, inputs and results are JSON texts: no number loses a digit. */
const caseSchema = z.strictObject({
  note: z.string(),
  file: z.string(),
  query: z.string(),
  modules: z.array(z.string()),
  data: z.string().optional(),
  input: z.string().optional(),
  /** A Rego term, where the input is not JSON. */
  inputTerm: z.string().optional(),
  wantResult: z.string().optional(),
  wantErrorCode: z.string().optional(),
  wantError: z.string().optional(),
  sortBindings: z.boolean().optional(),
  ignoreGeneratedVars: z.boolean().optional(),
  strictError: z.boolean().optional(),
});
const fileSchema = z.strictObject({ opa: z.string(), cases: z.array(caseSchema) });

/** One case of OPA's own suite; what its members mean says OPA's package `v1/test/cases`. */
export type ConformanceCase = z.infer<typeof caseSchema>;

/** Reads the packed cases: `npm run engine:cases` writes them. */
export function readCases(): z.infer<typeof fileSchema> {
  const packed = readFileSync(join(repoRoot(), 'test', 'conformance', 'cases.json.br'));
  return fileSchema.parse(JSON.parse(brotliDecompressSync(packed).toString('utf8')));
}
