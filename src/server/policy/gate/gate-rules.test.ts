import assert from 'node:assert/strict';
import { test } from 'node:test';
import { candidateStep, GATE_MODES, type GateMode, type Verdict } from './gate-rules.js';

const VERDICTS: readonly Verdict[] = ['good', 'bad', 'unsure'];
const MODES = GATE_MODES.filter((mode): mode is GateMode => mode !== 'off');

test('what becomes of a candidate, by what is known of it', () => {
  const steps = MODES.flatMap((mode) =>
    VERDICTS.map((verdict) => `${mode} ${verdict}: ${candidateStep(mode, verdict)}`),
  );
  assert.deepEqual(steps, [
    'on good: serve',
    'on bad: refuse',
    'on unsure: wait',
    'warn good: serve',
    'warn bad: serve_noted',
    'warn unsure: serve_noted',
  ]);
});
