import * as z from 'zod';
import { list, MANY } from './lists.js';

/** A data file: its text, and the folder that it is loaded at (`.` for the root). */
export const dataModule = z.object({ path: z.string(), data: z.string() });

/** A Rego module: its path in the repository and its text. */
export const policyModule = z.object({ path: z.string(), package_name: z.string().nullish(), rego: z.string() });

/** Response of `GET /policy` (specification "PolicyBundle"; opal-protocol P2.2). */
export const policyBundle = z.object({
  manifest: list(z.string(), { max: MANY }),
  hash: z.string(),
  old_hash: z.string().nullish(),
  data_modules: list(dataModule, { max: MANY }),
  policy_modules: list(policyModule, { max: MANY }),
  deleted_files: z
    .object({
      data_modules: list(z.string(), { max: MANY }).default([]),
      policy_modules: list(z.string(), { max: MANY }).default([]),
    })
    .nullish(),
  missing_directories: list(z.string(), { max: MANY })
    .optional()
    .describe('To clients of ours: requested directories that the commit does not have. They count as empty'),
});
export type PolicyBundle = z.infer<typeof policyBundle>;

/** OPAL's policy notice (opal-protocol P1.7). Ours is the new hash alone, as a string. */
export const opalPolicyNotice = z.object({
  old_policy_hash: z.string(),
  new_policy_hash: z.string(),
  changed_directories: list(z.string(), { max: MANY }),
});
export type OpalPolicyNotice = z.infer<typeof opalPolicyNotice>;

/** Either form of a policy notice, as a client accepts it. */
export const policyNotice = z.union([z.string().min(1), opalPolicyNotice]);
