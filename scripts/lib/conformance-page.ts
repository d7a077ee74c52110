import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { readCases } from '../../test/conformance/cases.js';
import { REFUSED } from '../../test/conformance/refused-cases.js';
import { repoRoot } from '../../test/support/repo.js';

const WIDTH = 140;

/** docs/internals/conformance.md: how the embedded engine answers OPA's own cases. */
export function conformancePage(generated: string): string {
  const { opa, cases } = readCases();
  const file = join(repoRoot(), 'test', 'conformance', 'with-go.json');
  const withGo = z.record(z.string(), z.array(z.string())).parse(JSON.parse(readFileSync(file, 'utf8')));
  const reasons = Object.entries(withGo).sort(([, one], [, other]) => other.length - one.length);
  const byGo = reasons.reduce((sum, [, names]) => sum + names.length, 0);
  const refused = Object.entries(REFUSED);
  return [
    '# Conformance',
    '',
    generated,
    '',
    `OPA ${opa} has ${cases.length} cases of Rego v1 for its own evaluator. \`test/conformance\` asks the [embedded engine](embedded-engine.md)`,
    "each of them, with the parts that ship: what is compiled is evaluated compiled, everything else by OPA's Go code. The judge goes by",
    "the rules of OPA's suite, on texts, so that no digit is lost. Whatever is compiled must also give exactly the bytes that Go gives.",
    '',
    `| ${cases.length} cases | |`,
    '|---|---|',
    `| answered as OPA expects | ${cases.length - refused.length} |`,
    `| answered by the compiled policy | ${cases.length - byGo} |`,
    `| answered by Go | ${byGo} |`,
    `| refused or not applicable, by name | ${refused.length} |`,
    '',
    'The cases come from the Go module of OPA: `npm run engine:cases` packs them, with the texts of documents, inputs and results as',
    'written, into `test/conformance/cases.json.br`.',
    '',
    '## Refused or not applicable',
    '',
    '| Case | Why |',
    '|---|---|',
    ...refused.map(([name, { why }]) => `| ${name} | ${why} |`),
    '',
    '## What Go answers',
    '',
    'A compiled policy must never answer differently from OPA. What it would, or could, is for Go:',
    '',
    '| Cases | Reason |',
    '|---|---|',
    ...reasons.map(([reason, names]) => `| ${names.length} | ${reason} |`),
    '',
    ...reasons.flatMap(([reason, names]) => [`### ${reason}`, '', ...wrapped(names.map((name) => `\`${name}\``)), '']),
  ]
    .join('\n')
    .replace(/\n+$/, '\n');
}

/** A list as lines of text. */
function wrapped(items: readonly string[]): string[] {
  const lines: string[] = [];
  let line = '';
  for (const [i, item] of items.entries()) {
    const next = i === items.length - 1 ? item : `${item},`;
    if (line !== '' && line.length + 1 + next.length > WIDTH) {
      lines.push(line);
      line = next;
    } else line = line === '' ? next : `${line} ${next}`;
  }
  return line === '' ? lines : [...lines, line];
}
