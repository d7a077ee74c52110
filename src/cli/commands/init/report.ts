import { join } from 'node:path';
import { shellWord } from '../../../lib/run/shell-word.js';
import { counted, table } from '../../kit/text.js';
import type { NewFile } from './files.js';
import type { Plan } from './plan.js';
import { SECRET_FILES } from './secrets.js';
import { targetLines } from './target-lines.js';

/** What was made, and how it goes on. */
export interface Made {
  readonly plan: Plan;
  /** As it was given. */
  readonly folder: string;
  readonly files: readonly NewFile[];
  /** The folder, in `folder`, of the files that these have replaced. */
  readonly replaced: string | undefined;
  /** How the program is called here: `policysync`, or `npx policysync`. */
  readonly program: string;
  /** What does not work as it is, each with what to do. */
  readonly warnings: readonly string[];
}

/** The three commands that follow, for a shell in the folder. */
export function nextCommands(program: string): string[] {
  const config = '--config policysync.yaml';
  return [`${program} doctor server ${config}`, `${program} server ${config}`, `${program} client ${config}`];
}

/** What `init` prints: the files, the three commands, and how to ask for a decision. */
export function reportLines({ plan, folder, files, replaced, program, warnings }: Made): string[] {
  const [check = '', server = '', client = ''] = nextCommands(program);
  return [
    `Wrote ${counted(files.length, 'file')}${folder === '.' ? '' : ` in ${folder}`}:`,
    ...table(files.map(({ path, about = '' }) => [`  ${path}`, about])),
    ...(replaced === undefined
      ? []
      : [
          '',
          `What these replace is in ${join(folder, replaced)}: remove it once you do not need it, it may have secrets.`,
        ]),
    '',
    ...(plan.mode === 'network' && plan.tls === 'none'
      ? ['The server speaks plain HTTP: see docs/how-to/secure.md before tokens cross a network.', '']
      : []),
    ...warnings.flatMap((warning) => [`Warning: ${warning}`, '']),
    'Next:',
    ...(folder === '.' ? [] : [`  cd ${shellWord(folder)}`]),
    `  ${check}`,
    `  ${server}`,
    `  ${client}     # in a second terminal`,
    '',
    `OPA then answers at http://127.0.0.1:${plan.enginePort}/v1/data; \`${program} doctor --config policysync.yaml\` checks both.`,
    ...(plan.mode === 'network'
      ? [
          'The configuration file has the token of the client. Other commands take another one: `publish`, `refresh` and `log` take',
          `\`--token-file ${SECRET_FILES.datasourceToken}\`; \`status\`, \`clients\` and \`trace\` take \`--token-file ${SECRET_FILES.listenerToken}\`.`,
        ]
      : []),
    ...targetLines(plan, { isRoot: process.getuid?.() === 0 }),
  ];
}
