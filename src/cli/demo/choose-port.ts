import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** The wanted port of 127.0.0.1 where nothing listens there, else a free one. */
export async function choosePort(wanted: number): Promise<number> {
  try {
    return await listenBriefly(wanted);
  } catch (error) {
    if (wanted === 0) throw error;
    return listenBriefly(0); // somebody listens there, or it needs rights that we do not have
  }
}

async function listenBriefly(port: number): Promise<number> {
  const server = createServer().listen({ port, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');
  const { port: taken } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return taken;
}
