import type { FastifyInstance } from 'fastify';
import { type Caller, expiresAtMs, isDatasource, limitsOf } from '../../auth/caller.js';
import { EventStream, eventText } from '../../http/event-stream.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import { startTimer } from '../../lib/run/async.js';
import { type Bound, Budget, type Holder, type Release } from '../../lib/run/budget.js';
import type { FleetEnd } from '../../wire/fleet.js';
import type { FleetFeeds, FleetReader } from '../live/feeds.js';

/** Streams at one time: in all, of one address, and of one token. */
const MAX_STREAMS = { all: 200, address: 50, subject: 10 };
/** A reader that lost its stream comes back after this time: not all at once. */
const RETRY_MS = { min: 1000, max: 4000 };
const RETRY_SECONDS = 10;

/** The open streams of the fleet. */
export interface FleetStreams {
  /** Ends all of them: readers come back, to another server instance if this one stops. */
  end(): void;
}

/**
 * `GET /ui/events`: the fleet as it changes, as server-sent events (docs/reference/fleet-api.md).
 */
export function fleetEventsRoute(app: FastifyInstance, { feeds }: { feeds: Pick<FleetFeeds, 'watch'> }): FleetStreams {
  const places = new Budget(MAX_STREAMS, { what: 'streams' });
  const open = new Set<EventStream>();
  const streams: FleetStreams = {
    end: () => {
      for (const stream of open) stream.end(endText('draining'));
    },
  };
  // Those of a stop without a drain: it waits for responses under way.
  app.addHook('preClose', async () => streams.end());
  addRoute(
    app,
    {
      method: 'GET',
      path: '/ui/events',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      summary: 'The fleet as it changes: clients, changes and server instances, as server-sent events',
      description:
        'Event `snapshot` has everything, `delta` what changed since the event before, at most four times a second; `end` says why the server ends the stream. With `Last-Event-ID` the stream goes on where it was lost, or begins with a snapshot. `/changes` has older changes.',
      responses: {
        200: {
          description: 'The stream',
          contentType: 'text/event-stream',
          events: async () => (await import('../../wire/fleet.js')).FLEET_EVENTS,
        },
        503: { description: 'Too many streams are open' },
      },
    },
    ({ caller, request, reply }) => {
      const leave = admit(places, app.holderOf(request));
      const { 'last-event-id': lastEventId } = request.headers;
      const stream = new EventStream();
      let watch: FleetReader;
      try {
        watch = follow(stream, caller, [lastEventId].flat()[0], feeds);
      } catch (error) {
        leave();
        throw error;
      }
      open.add(stream);
      const expiresMs = expiresAtMs(caller);
      const stopTimer =
        expiresMs === undefined
          ? undefined
          : startTimer(Math.max(0, expiresMs - Date.now()), () => stream.end(endText('expired')));
      stream.onClosed = () => {
        stopTimer?.();
        watch.end();
        open.delete(stream);
        leave();
      };
      return stream.open(reply, RETRY_MS.min + Math.random() * (RETRY_MS.max - RETRY_MS.min));
    },
  );
  return streams;
}

/** Sends the feed that the caller may see to a stream. */
function follow(
  stream: EventStream,
  caller: Caller,
  lastEventId: string | undefined,
  feeds: Pick<FleetFeeds, 'watch'>,
): FleetReader {
  const seesPublisher = isDatasource(caller);
  const watch = feeds.watch(
    {
      seesPublisher,
      onSnapshot: (event) => stream.restart(event.frame(seesPublisher)),
      onDelta: (event) => stream.send(event.frame(seesPublisher)),
    },
    { limits: limitsOf(caller), lastEventId },
  );
  stream.onCaughtUp = () => stream.restart(watch.snapshot().frame(seesPublisher));
  return watch;
}

const FULL: Readonly<Record<Bound, string>> = {
  subject: `${MAX_STREAMS.subject} streams of your token`,
  address: `${MAX_STREAMS.address} streams of your address`,
  all: `${MAX_STREAMS.all} streams`,
};

/** Takes a place for a stream, and returns what gives it back. */
function admit(places: Budget, reader: Holder): Release {
  const taken = places.take(reader, 1);
  if (typeof taken === 'function') return taken;
  const text = `${FULL[taken]} are open, and there may be no more`;
  throw new SyncError('too_many_watchers', text, {
    ...{ retryAfterSeconds: RETRY_SECONDS, retryable: true, outside: text },
  });
}

function endText(reason: 'expired' | 'draining'): string {
  return eventText('end', JSON.stringify({ reason } satisfies FleetEnd));
}
