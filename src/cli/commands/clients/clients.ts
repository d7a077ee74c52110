import type { Command } from 'commander';
import { serverAddress } from '../../../lib/net/server-address.js';
import { clientAnswer } from '../../../wire/client-details.js';
import { type ClientsAnswer, type ClientView, clientsAnswer } from '../../../wire/clients.js';
import { parsedAnswer, readAllPages } from '../../kit/all-clients.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { askServer } from '../../kit/server-fetch.js';
import { addTargetOptions, serverTarget, type TargetOptions } from '../../kit/server-target.js';
import { counted, printable } from '../../kit/text.js';
import { conditionsOf } from '../../live/client-state.js';
import type { Page } from '../../live/fleet-lines.js';
import { clientLines } from '../status/client-lines.js';
import { clientTable } from '../status/client-table.js';
import { parseConditions } from '../status/fail-on.js';
import { onServerClock, terminalPage } from '../watch/watch.js';

interface ClientsOptions extends TargetOptions {
  only?: string;
  json?: boolean;
}

/**
 * Adds `clients`: who is connected to a server, from where, and with which topics. `status` says
 * how each is.
 */
export function addClientsCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('clients')
    .description(
      'List the clients of a server: where each is connected, since when, and for which topics. With a name: one client in full, ' +
        'with its last transactions.',
    )
    .argument('[name]', 'only this client, by its name in the list');
  addTargetOptions(command, 'datasource or listener')
    .option('--only <conditions>', 'only those that are unhealthy, behind or away; comma-separated')
    .option('--json', 'print the response as JSON')
    .action((name: string | undefined, options: ClientsOptions) =>
      name === undefined ? clients(options, withConfig(io, options)) : client(name, options, withConfig(io, options)),
    );
}

async function clients(options: ClientsOptions, io: CommandIo): Promise<void> {
  const wanted = options.only === undefined ? undefined : parseConditions('--only', options.only);
  const isWanted = (client: ClientView): boolean =>
    wanted === undefined || wanted.some((condition) => conditionsOf(client).has(condition));
  const { answer, raw } = await readAllPages(clientsAnswer, '/clients', serverTarget(options, io), io.env);
  if (options.json === true) {
    const chosen = raw.clients.filter((_, index) => isWanted(answer.clients[index] as ClientView));
    printLine(io.stdout, JSON.stringify({ ...raw, clients: chosen }));
    return;
  }
  const lines = listLines(answer, answer.clients.filter(isWanted), onServerClock(answer.now)(terminalPage(io.stdout)));
  for (const line of lines) printLine(io.stdout, line);
}

async function client(name: string, options: ClientsOptions, io: CommandIo): Promise<void> {
  if (options.only !== undefined) throw new UsageError('--only belongs to the list of clients, and a name is given');
  const { url, token } = serverTarget(options, io);
  const address = serverAddress(url, `/clients/${encodeURIComponent(name)}`);
  const { text } = await askServer({ url: address, token }, { code: 'server_refused' }, io.env);
  const answer = parsedAnswer(clientAnswer, text, url);
  if (options.json === true) printLine(io.stdout, text);
  else
    for (const line of clientLines(answer, onServerClock(answer.now)(terminalPage(io.stdout))))
      printLine(io.stdout, line);
}

function listLines({ clients: all, incomplete }: ClientsAnswer, shown: readonly ClientView[], page: Page): string[] {
  const of = shown.length === all.length ? '' : ` of ${all.length}`;
  return [
    `${counted(shown.length, 'client')}${of}`,
    ...(incomplete === null ? [] : [`There may be more clients: ${printable(incomplete)}`]),
    ...(shown.length === 0 ? [] : ['', ...clientTable(shown, page)]),
  ];
}
