import type * as z from 'zod';
import type { Audience } from '../auth/caller.js';

/**
 * A schema, or what loads it: only the OpenAPI document needs that of a response, and few servers
 * are ever asked for it.
 */
type ResponseSchema = z.ZodType | (() => Promise<z.ZodType>);

/** One possible response of a route, for the documentation. */
export interface ResponseDeclaration {
  readonly description: string;
  /** Shape of its JSON body, if it has one. */
  readonly schema?: ResponseSchema;
  /** Media type of a body that has no schema. */
  readonly contentType?: string;
  /** Shapes of the data of server-sent events, by the name of the event. */
  readonly events?: () => Promise<Readonly<Record<string, z.ZodType>>>;
}

/**
 * One route as it is documented: who may call it and what each caller sees of it, what it accepts
 * and returns.
 */
export type DeclaredRoute<Q extends z.ZodType = z.ZodType, B extends z.ZodType = z.ZodType> = RouteFacts<Q, B> &
  Audience;

/** What is declared of a route beside its {@link Audience}. */
export interface RouteFacts<Q extends z.ZodType = z.ZodType, B extends z.ZodType = z.ZodType> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** A parameter has a colon: `/callbacks/:key`. */
  readonly path: string;
  /** Heading under which the documentation lists it. */
  readonly tag: string;
  /** One line. */
  readonly summary: string;
  readonly description?: string;
  /** Schema of the query; each parameter is a string, or an array of them if it is repeated. */
  readonly query?: Q;
  readonly body?: B;
  /**
   * The handler gets the bytes of the body as `call.raw` and checks them itself; `body` is
   * documentation then.
   */
  readonly rawBody?: boolean;
  readonly responses?: Readonly<Record<number, ResponseDeclaration>>;
  /**
   * Its work grows with the log or the fleet: so many are worked on at a time for each caller, and
   * the others wait.
   */
  readonly scans?: boolean;
  /** Largest body, if that is less than the program accepts. */
  readonly bodyLimitBytes?: number;
  /**
   * Of a caller who is let in by what the body shows: a few such bodies at a time may be as large.
   */
  readonly largeBodyBytes?: number;
}
