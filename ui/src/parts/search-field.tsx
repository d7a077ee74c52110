import './search-field.css';
import { Icon } from './icon';

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly onInput: (text: string) => void;
}

/** The field of a page that `/` leads to; Escape empties it. */
export function SearchField({ label, placeholder, value, onInput }: SearchFieldProps) {
  return (
    <div class="find">
      <Icon name="search" tone="muted" />
      <input
        class="field"
        id="q"
        type="search"
        autocomplete="off"
        spellcheck={false}
        aria-label={label}
        placeholder={placeholder}
        value={value}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return;
          if (value === '') event.currentTarget.blur();
          else onInput('');
        }}
      />
    </div>
  );
}
