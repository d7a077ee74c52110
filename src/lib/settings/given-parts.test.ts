import assert from 'node:assert/strict';
import { it } from 'node:test';
import { silentLogger } from '../observe/log.js';
import { A_FUNCTION, A_LOGGER, AN_OBJECT, aNumber, checkParts, OBJECTS } from './given-parts.js';

const RULES = {
  ...{ log: A_LOGGER, env: AN_OBJECT, lookUp: A_FUNCTION, providers: OBJECTS },
  decisions: { members: { waitMs: aNumber(0) } },
};

function problems(given: unknown): string[] {
  try {
    checkParts(given, RULES);
  } catch (error) {
    assert(error instanceof Error && (error as { code?: unknown }).code === 'config_invalid');
    return error.message.split('\n  ').slice(1);
  }
  return [];
}

it('parts that are as they must be are taken, and those that are undefined are not there', () => {
  assert.deepEqual(problems({}), []);
  const parts = { log: silentLogger(), env: {}, lookUp: () => 1, providers: [{}], decisions: { waitMs: 0 } };
  assert.deepEqual(problems(parts), []);
  assert.deepEqual(problems({ log: undefined, decisions: { waitMs: undefined } }), []);
});

it('each part that does not exist, or is not valid, is named by its place', () => {
  assert.deepEqual(
    problems({
      ...{ logg: silentLogger(), lookup: () => 1, toString: 1, env: [], lookUp: 'x', log: { info: () => 1 } },
      ...{ providers: [1], decisions: { waitMS: 1, waitMs: -1 } },
    }),
    [
      'there is no logg: did you mean log?',
      'there is no lookup: did you mean lookUp?',
      'there is no toString',
      'env must be an object',
      'lookUp must be a function',
      'log must be a logger of createLogger, or of pino',
      'providers must be a list of objects',
      'there is no decisions.waitMS: did you mean waitMs?',
      'decisions.waitMs must be a number from 0 on',
    ],
  );
  assert.deepEqual(problems({ decisions: true }), ['decisions must be an object']);
  for (const given of [null, 5, [], 'x']) assert.deepEqual(problems(given), ['the second argument must be an object']);
});
