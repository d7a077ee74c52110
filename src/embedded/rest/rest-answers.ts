import { MAX_JSON_VALUES } from '../../lib/json.js';

/** A response of a front; the texts are those of OPA. */
export interface RestAnswer {
  readonly status: number;
  /** Names and values, one after the other. */
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
}

const JSON_TYPE: readonly string[] = ['Content-Type', 'application/json'];
/** OPA's data API may compress. */
const DATA: readonly string[] = [...JSON_TYPE, 'Vary', 'Accept-Encoding'];
const WARNING = '"warning":{"code":"api_usage_warning","message":"\'input\' key missing from the request"}';

/** The response to `/v1/data`. */
export function dataAnswer(result: string | undefined, warns: boolean): RestAnswer {
  const members = result === undefined ? '' : `"result":${result}`;
  const warning = warns ? `${members === '' ? '' : ','}${WARNING}` : '';
  return { status: 200, headers: DATA, body: `{${members}${warning}}\n` };
}

/** The response to `/v0/data` and `/`. */
export function bareAnswer(result: string): RestAnswer {
  return { status: 200, headers: DATA, body: `${result}\n` };
}

/** An error in OPA's form. `more`: further headers. */
export function errorAnswer(status: number, code: string, message: string, more: readonly string[] = []): RestAnswer {
  const body = `${JSON.stringify({ code, message }, undefined, 2)}\n`;
  return { status, headers: [...JSON_TYPE, ...more], body };
}

/** The response to whatever is not for the caller, as of OPA with an authorization policy. */
export const REFUSED = errorAnswer(401, 'unauthorized', 'request rejected by administrative policy');

/** The response of Go to a request that it cannot read. */
export const BAD_REQUEST: RestAnswer = {
  status: 400,
  headers: ['Content-Type', 'text/plain; charset=utf-8', 'Connection', 'close'],
  body: '400 Bad Request',
};

/** The response to a body beyond the limit. */
export const TOO_LARGE = errorAnswer(400, 'invalid_parameter', 'request body too large');

/** The response to a compressed body beyond the limit. */
export const INFLATES_TOO_LARGE = errorAnswer(
  400,
  'invalid_parameter',
  'could not decompress the body: gzip payload too large',
);

/** The response to a body whose values would keep OPA busy for longer than a decision may take. */
export const TOO_MANY_VALUES = errorAnswer(
  400,
  'invalid_parameter',
  `request body has more than ${MAX_JSON_VALUES} values`,
);

/** The response of `/health`; with a problem it is unhealthy. */
export function healthAnswer(problem: string | undefined): RestAnswer {
  return problem === undefined
    ? { status: 200, headers: JSON_TYPE, body: '{}\n' }
    : { status: 500, headers: JSON_TYPE, body: `${JSON.stringify({ error: problem })}\n` };
}
