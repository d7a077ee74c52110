import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ConnectivityConditions,
  type ConnectivityEvent,
  type ConnectivityOutcome,
  type ConnectivityState,
  connectivityTransition,
} from './connectivity.js';

/** Conditions as a key: offline mode, disconnect default, backup loaded. */
type Case = `${'on' | 'off'}/${'default-off' | 'default-on'}/${'backup' | 'none'}`;

const CASES: readonly Case[] = (['on', 'off'] as const).flatMap((mode) =>
  (['default-on', 'default-off'] as const).flatMap((preset) =>
    (['backup', 'none'] as const).map((backup): Case => `${mode}/${preset}/${backup}`),
  ),
);

function conditions(name: Case): ConnectivityConditions {
  const [mode, preset, backup] = name.split('/');
  return { offlineMode: mode === 'on', disconnectDefault: preset === 'default-off', backupLoaded: backup === 'backup' };
}

/** The same outcome for every combination of conditions. */
function always(outcome: ConnectivityOutcome): Record<Case, ConnectivityOutcome> {
  return Object.fromEntries(CASES.map((name) => [name, outcome])) as Record<Case, ConnectivityOutcome>;
}

/** One outcome with offline mode on, another with it off. */
function byMode(on: ConnectivityOutcome, off: ConnectivityOutcome): Record<Case, ConnectivityOutcome> {
  return Object.fromEntries(CASES.map((name) => [name, name.startsWith('on/') ? on : off])) as Record<
    Case,
    ConnectivityOutcome
  >;
}

const refused = (next: ConnectivityState): ConnectivityOutcome => ({ next, effects: [], answer: 'offline_mode_off' });
const starts: ConnectivityOutcome = { next: 'connected', effects: ['start_following'] };
const warns: ConnectivityOutcome = { next: 'connected', effects: ['warn_connecting', 'start_following'] };
const busy: ConnectivityOutcome = { next: 'starting', effects: [], answer: 'starting' };

/**
 * The table of specification "Client server-connectivity", every cell of it: leaving one out does
 * not compile.
 */
const EXPECTED: Record<ConnectivityState, Record<ConnectivityEvent, Record<Case, ConnectivityOutcome>>> = {
  starting: {
    start: {
      'on/default-off/backup': { next: 'disconnected', effects: [] },
      'on/default-off/none': warns,
      'on/default-on/backup': starts,
      'on/default-on/none': starts,
      'off/default-off/backup': warns,
      'off/default-off/none': warns,
      'off/default-on/backup': starts,
      'off/default-on/none': starts,
    },
    enable: byMode(busy, refused('starting')),
    disable: byMode(busy, refused('starting')),
    engine_restarted: always({ next: 'starting', effects: [] }),
  },
  connected: {
    start: always({ next: 'connected', effects: [] }),
    enable: byMode({ next: 'connected', effects: [], answer: 'already_enabled' }, refused('connected')),
    disable: byMode(
      { next: 'disconnected', effects: ['stop_following', 'save_backup'], answer: 'disabled' },
      refused('connected'),
    ),
    engine_restarted: always({ next: 'connected', effects: ['refetch'] }),
  },
  disconnected: {
    start: always({ next: 'disconnected', effects: [] }),
    enable: byMode({ next: 'connected', effects: ['rehydrate'], answer: 'enabled' }, refused('disconnected')),
    disable: byMode({ next: 'disconnected', effects: [], answer: 'already_disabled' }, refused('disconnected')),
    engine_restarted: byMode({ next: 'disconnected', effects: ['load_backup'] }, { next: 'disconnected', effects: [] }),
  },
};

for (const [state, events] of Object.entries(EXPECTED)) {
  for (const [event, cases] of Object.entries(events)) {
    test(`connectivity: ${state}, ${event}: what the table says, under all conditions`, () => {
      assert.deepEqual(Object.keys(cases).sort(), [...CASES].sort());
      for (const name of CASES) {
        const outcome = connectivityTransition(
          state as ConnectivityState,
          event as ConnectivityEvent,
          conditions(name),
        );
        assert.deepEqual(outcome, cases[name], name);
      }
    });
  }
}

test('connectivity: only a switch between connected and disconnected, or a start, follows the server or stops to', () => {
  for (const [state, events] of Object.entries(EXPECTED)) {
    for (const outcome of Object.values(events).flatMap((cases) => Object.values(cases))) {
      const follows = outcome.effects.some((effect) => effect === 'start_following' || effect === 'rehydrate');
      assert.equal(follows, state !== 'connected' && outcome.next === 'connected');
      assert.equal(outcome.effects.includes('stop_following'), state === 'connected' && outcome.next !== 'connected');
    }
  }
});
