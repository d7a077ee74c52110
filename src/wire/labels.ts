import * as z from 'zod';
import { isRecord } from '../lib/json/is-record.js';

/**
 * The labels of a client, `app=billing,zone=a`: what its operator says it is, so that people can
 * sort the fleet. The client tells them; nothing proves them.
 */

/** Most labels of one client. */
export const MAX_LABELS = 16;
/** Longest key, and longest value. */
export const MAX_LABEL_CHARACTERS = 63;

const KEY = /^[A-Za-z][A-Za-z0-9._/-]*$/;
/** What could change how a line of text looks, or where the next label begins. */
const NOT_IN_VALUE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp},=]/u;

/** Labels by key. */
export type Labels = Readonly<Record<string, string>>;

/** Shared by all clients without labels. */
export const NO_LABELS: Labels = Object.freeze({});

/** What is wrong with a label; undefined: nothing. */
export function labelProblem(key: string, value: string): string | undefined {
  const max = MAX_LABEL_CHARACTERS;
  if (!KEY.test(key) || key.length > max) {
    return `${shown(key)} is no key: a key is a letter, then letters, digits, and . _ / -, at most ${max} characters`;
  }
  if (value.length > max || NOT_IN_VALUE.test(value)) {
    return `the value ${shown(value)} of ${key} is not allowed: at most ${max} characters, no comma, no =, no control characters`;
  }
  return undefined;
}

/**
 * Reads `app=billing,zone=a`; the items may be apart already. Throws an `Error` that says what is
 * wrong, and with which label.
 */
export function parseLabels(given: string | readonly string[]): Labels {
  const items = (typeof given === 'string' ? given.split(',') : given).map((item) => item.trim());
  const labels = new Map<string, string>();
  for (const item of items) {
    if (item === '') continue;
    const at = item.indexOf('=');
    if (at === -1) throw new Error(`must be labels such as app=billing,zone=a; ${shown(item)} has no =`);
    const key = item.slice(0, at).trim();
    if (labels.has(key)) throw new Error(`has the label ${shown(key)} twice`);
    labels.set(key, item.slice(at + 1).trim());
  }
  return checkedLabels(Object.fromEntries(labels));
}

/** Checks labels that a program gives as an object. Throws as {@link parseLabels} does. */
export function checkedLabels(labels: Labels): Labels {
  const entries = Object.entries(labels);
  if (entries.length > MAX_LABELS) throw new Error(`has ${entries.length} labels: at most ${MAX_LABELS} are allowed`);
  for (const [key, value] of entries) {
    const problem = labelProblem(key, value);
    if (problem !== undefined) throw new Error(`has a label that is not allowed: ${problem}`);
  }
  return entries.length === 0 ? NO_LABELS : labels;
}

/** Labels of a peer. */
export const peerLabels = z.custom<Labels>(isLabels, `must be at most ${MAX_LABELS} labels`);

function isLabels(given: unknown): boolean {
  if (!isRecord(given)) return false;
  const entries = Object.entries(given);
  return (
    entries.length <= MAX_LABELS &&
    entries.every(([key, value]) => typeof value === 'string' && labelProblem(key, value) === undefined)
  );
}

/** As in the setting: `app=billing,zone=a`, by key. */
export function labelsText(labels: Labels): string {
  return Object.keys(labels)
    .sort()
    .map((key) => `${key}=${labels[key]}`)
    .join(',');
}

function shown(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 97)}...` : text);
}
