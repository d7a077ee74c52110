/**
 * Kubernetes tells each container of the Services in its namespace: a Service `sync-server` becomes
 * SYNC_SERVER_SERVICE_HOST, SYNC_SERVER_PORT=tcp://10.0.0.1:7002 and more, unless the pod says
 * `enableServiceLinks: false`. They look like settings of ours, and are none.
 */
const NAMES = [/_SERVICE_HOST$/, /_SERVICE_PORT(?:_|$)/, /_PORT_[0-9]{1,5}_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/];
const ADDRESS = /^(?:tcp|udp|sctp):\/\//;

/** Whether Kubernetes made a variable for a Service, whatever the Service is called. */
export function isOfService(name: string, value: string | undefined): boolean {
  if (value === undefined) return false;
  return NAMES.some((form) => form.test(name)) || (name.endsWith('_PORT') && ADDRESS.test(value));
}
