import { silentLogger } from '../../src/lib/observe/log.js';
import { openSqliteLog } from '../support/sqlite-log.js';

/**
 * A process that appends to the log of a folder until it is killed or refused, and prints the `seq` of each record that
 * was acknowledged, then `refused <code>`. Started by `update-log.test.ts`.
 * Arguments: state folder, bytes of inline data per record, appends in flight.
 */
const [, , stateDir = '', bytes = '100', width = '8'] = process.argv;
const log = await openSqliteLog({ stateDir }, { log: silentLogger() });
const { JsonText } = await import('../../src/lib/json/json-text.js');
const data = JsonText.of('x'.repeat(Number(bytes)));

let refused: unknown;
async function appendForever(writer: number): Promise<void> {
  for (let count = 0; refused === undefined; count++) {
    try {
      const { seq } = await log.append({
        id: `${writer}-${count}`,
        publisher: null,
        reason: null,
        entries: [{ url: '', topics: ['t'], dst_path: `/w${writer}/${count % 50}`, save_method: 'PUT', data }],
        callbacks: [],
      });
      process.stdout.write(`${seq}\n`);
    } catch (error) {
      refused = error;
    }
  }
}
await Promise.all(Array.from({ length: Number(width) }, (_, writer) => appendForever(writer)));
process.stdout.write(`refused ${(refused as { code?: string }).code}, fold ${log.fold().length}\n`);
await log.close();
