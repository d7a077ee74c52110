import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import * as z from 'zod';
import { CHECK_MEMORY_BYTES } from '../../src/server/policy/gate/compile-check.js';
import { CLIENT_SETTINGS, loadSettings, SERVER_SETTINGS } from '../support/library.js';
import { repoRoot } from '../support/repo.js';

/** The limits of the chart, the sidecar and the units have room for what the settings allow. */

const DEPLOY = join(repoRoot(), 'deploy');
const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
/** A program at rest with what it needs to work: V8's heap grows before it is collected. */
const PROGRAM = 256 * MIB;
const UNITS: Readonly<Record<string, number>> = { Mi: MIB, Gi: GIB, MiB: MIB, GiB: GIB, M: MIB, G: GIB };

function bytes(text: string): number {
  const [, amount = '', unit = ''] = /^(\d+)([A-Za-z]*)$/.exec(text) ?? [];
  return Number(amount) * (unit === '' ? 1 : (UNITS[unit] ?? Number.NaN));
}

function read(...path: string[]): string {
  return readFileSync(join(DEPLOY, ...path), 'utf8');
}

const server = loadSettings(SERVER_SETTINGS, { env: {} }).values;
const client = loadSettings(CLIENT_SETTINGS, { env: {} }).values;
/** Bodies, responses and buffers under way, in whatever settings there are for them. */
const UNDER_WAY = Object.entries(server).reduce(
  (sum, [name, value]) => (/^(?:request|response|unauthenticated)Bytes/.test(name) ? sum + Number(value) : sum),
  server.bodyLimitBytes,
);
const SERVER_NEEDS = PROGRAM + UNDER_WAY + CHECK_MEMORY_BYTES;
/** OPA's Go code, that of free queries, and the thread that evaluates. */
const EMBEDDED_PARTS = 3;

const part = z.looseObject({ resources: z.object({ limits: z.object({ memory: z.string() }) }) });
const chart = z.looseObject({ server: part, client: part }).parse(parse(read('helm', 'policysync', 'values.yaml')));
const template = read('helm', 'policysync', 'templates', 'client.yaml');

test('of the chart', () => {
  assert(bytes(chart.server.resources.limits.memory) >= SERVER_NEEDS, 'the server');
  const limit = bytes(chart.client.resources.limits.memory);
  const opa = /name: GOMEMLIMIT\n +value: (\S+)/.exec(template)?.[1] ?? '';
  assert(limit >= PROGRAM + bytes(opa) * 1.25, `OPA with ${opa}`);
  const embedded = /"SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT" "(\d+)"/.exec(template)?.[1] ?? '';
  assert(limit >= PROGRAM + EMBEDDED_PARTS * bytes(embedded), `an embedded engine with ${embedded}`);
});

test('of the sidecar', () => {
  const sidecar = read('helm', 'sidecar.yaml');
  const opa = /name: GOMEMLIMIT\n +value: (\S+)/.exec(sidecar)?.[1] ?? '';
  const limit = /limits: \{ memory: (\S+) \}/.exec(sidecar)?.[1] ?? '';
  assert(bytes(limit) >= PROGRAM + bytes(opa) * 1.25, limit);
});

test('of the units', () => {
  const needs = { server: SERVER_NEEDS, client: PROGRAM + EMBEDDED_PARTS * client.embeddedMemoryLimitBytes };
  for (const [program, needed] of Object.entries(needs)) {
    const unit = read('systemd', `policysync-${program}.service`);
    const limit = /^MemoryMax=(\S+)$/m.exec(unit)?.[1] ?? '';
    assert(bytes(limit) >= needed, `${program}: ${limit}`);
    assert.match(unit, /^OOMPolicy=continue$/m);
  }
});
