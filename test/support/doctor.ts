import assert from 'node:assert/strict';
import { runHere } from './run-here.js';

/** One finding, as the JSON of `doctor` has it. */
export interface ShownFinding {
  readonly level: 'ok' | 'warning' | 'error';
  readonly id: string;
  readonly subject: string;
  readonly message: string;
  readonly remedy: string | null;
}

/** What `policysync doctor --json` said. */
export interface Diagnosis {
  readonly code: number | null;
  readonly text: string;
  readonly findings: readonly ShownFinding[];
  /** `level: message` of the first finding with this id. */
  of(id: string): string;
}

/** Runs `policysync doctor --json` in this process. Each finding that is not in order has a remedy. */
export async function doctor(args: readonly string[], env: Record<string, string> = {}): Promise<Diagnosis> {
  // A busy machine takes longer than a person waits for.
  const { code, stdout, stderr } = await runHere('policysync', ['doctor', '--json', '--timeout', '60', ...args], env);
  assert.notEqual(code, 2, stderr);
  const { findings } = JSON.parse(stdout) as { findings: ShownFinding[] };
  for (const { id, level, remedy } of findings) assert.equal(remedy === null, level === 'ok', id);
  return {
    ...{ code, findings, text: stdout + stderr },
    of: (id) => {
      const found = findings.find((one) => one.id === id);
      assert.ok(found, `no finding ${id} in ${stdout}`);
      return `${found.level}: ${found.message}`;
    },
  };
}
