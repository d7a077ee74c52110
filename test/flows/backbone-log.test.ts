import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { BACKBONE_PASSWORD, backboneOffer } from '../support/backbone-servers.js';
import { startCommand } from '../support/command.js';
import { field, postJson, request } from '../support/http.js';
import { tempDir } from '../support/temp-dir.js';
import { patience, until } from '../support/until.js';

const offer = await backboneOffer('Redis');

test('a backbone that goes away, under publishes and reads, is one line in the log, and one when it is back', {
  skip: offer.missing ?? false,
}, async () => {
  await using dir = await tempDir();
  await using backbone = await offer.start();
  await using server = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_STATE_DIR: join(dir.path, 'state'),
    SYNC_BROADCAST_URI: backbone.uri,
  });
  const [, url = ''] = await server.says(/"url":"(http:[^"]+)".*listening/);
  const lines = (): { level: string; msg: string; stack?: string; err?: unknown; update_log?: string }[] =>
    server
      .stderr()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  const place = lines().find(({ msg }) => msg.startsWith('update log:'))?.msg ?? '';
  assert.match(place, /^update log: redis:\/\/\*\*\*@127\.0\.0\.1:\d+\S*, shared by all servers with this backbone, /);
  const before = lines().length;
  const publish = async (): Promise<number> => {
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/a', data: 1 }];
    return (await postJson(`${url}/data/config`, { entries })).status;
  };
  assert.equal(await publish(), 200);
  await backbone.kill();
  for (let count = 0; count < 20; count++) assert.equal(await publish(), 503);
  await until(async () => field((await request(`${url}/healthcheck`)).json, 'update_log', 'backbone', 'up') === false, {
    withinMs: 20_000,
    what: 'the server says that the backbone is away',
  });
  await server.says(/the backbone is lost/);
  const warned = (): string[] =>
    lines()
      .slice(before)
      .filter(({ level }) => level === 'warn' || level === 'error')
      .map(({ msg }) => msg);
  await backbone.start();
  await server.says(/the backbone is back/);
  assert.equal(await publish(), 200);
  // On a busy machine it is away for longer than others may be unheard of, which is another fact.
  const isCutOff = (msg: string): boolean => msg.startsWith('this instance is cut off from the backbone');
  const ofBackbone = warned().filter((msg) => !isCutOff(msg));
  assert(warned().filter(isCutOff).length <= (patience() === 1 ? 0 : 1), String(warned()));
  assert.deepEqual(ofBackbone, ['the backbone is lost']);
  assert(!server.stderr().includes('\\n    at '), 'no stack');
  assert(!server.stderr().includes(BACKBONE_PASSWORD), 'no password');
});
