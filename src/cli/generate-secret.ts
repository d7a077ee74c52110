import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { type CommandIo, printLine } from './command-io.js';
import { UsageError } from './run-program.js';

/** Default size of a secret: 256 bits. */
const SECRET_BYTES = 32;
const SECRET_FORMATS = { hex: 'hex', urlsafe: 'base64url', base64: 'base64' } as const;

/** Adds `generate-secret`: prints a new random secret (specification cli.generate-secret). */
export function addGenerateSecretCommand(program: Command, io: CommandIo): void {
  program
    .command('generate-secret')
    .description('Print a new random secret, for example for SYNC_POLICY_REPO_WEBHOOK_SECRET.')
    .option('--size <bytes>', 'number of random bytes, 16 to 1024', String(SECRET_BYTES))
    .addOption(
      new Option('--format <format>', 'encoding of the secret').choices(Object.keys(SECRET_FORMATS)).default('urlsafe'),
    )
    .action((options: { size: string; format: keyof typeof SECRET_FORMATS }) => {
      const size = Number(options.size);
      if (!Number.isInteger(size) || size < 16 || size > 1024) {
        throw new UsageError(`--size must be a whole number from 16 to 1024 (is ${options.size})`);
      }
      printLine(io.stdout, randomBytes(size).toString(SECRET_FORMATS[options.format]));
    });
}
