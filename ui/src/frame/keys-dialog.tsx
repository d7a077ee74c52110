import { Dialog } from '../parts/dialog';
import { KEYS, type Keys } from './keys';

/** The keys that work everywhere, and the switch that turns single keys off. */
export function KeysDialog({ keys, onClose }: { readonly keys: Keys; readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="key-list">
        {KEYS.map(({ keys, does }) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={keys.areOn.value}
          onChange={(event) => keys.turn(event.currentTarget.checked)}
        />{' '}
        Single keys do this
      </label>
    </Dialog>
  );
}
