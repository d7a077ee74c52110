/** Mail in parts, for a channel whose messages are short: `mail:<id>:<index>:<count>:<text>`. */

/** Characters of text in one part: Postgres allows 7,999 bytes in all. */
const PART = 7000;
/** Most parts of one mail. */
const MAX_PARTS = 40;
const FORM = /^mail:([0-9a-f]{1,64}):(\d{1,3}):(\d{1,3}):([\x20-\x7e]*)$/;

/** Splits ASCII text. */
export function mailParts(id: string, text: string): string[] {
  const count = Math.max(1, Math.ceil(text.length / PART));
  if (count > MAX_PARTS) throw new RangeError(`mail of ${text.length} characters is too long`);
  return Array.from({ length: count }, (_, index) => {
    return `mail:${id}:${index}:${count}:${text.slice(index * PART, (index + 1) * PART)}`;
  });
}

/** Joins parts again. Those of one mail come one after the other: a gap loses that mail. */
export class MailParts {
  readonly #onMail: (text: string) => void;
  #open: { readonly id: string; readonly count: number; readonly parts: string[] } | undefined;

  constructor(onMail: (text: string) => void) {
    this.#onMail = onMail;
  }

  /** Takes a message; false: it is none of mail. */
  take(message: string): boolean {
    if (!message.startsWith('mail:')) return false;
    const [, id = '', indexText, countText, part = ''] = FORM.exec(message) ?? [];
    const [index, count] = [Number(indexText), Number(countText)];
    if (index === 0 && count >= 1 && count <= MAX_PARTS) this.#open = { id, count, parts: [] };
    const open = this.#open;
    if (open?.id !== id || open.count !== count || open.parts.length !== index) {
      this.#open = undefined;
      return true;
    }
    open.parts.push(part);
    if (open.parts.length < count) return true;
    this.#open = undefined;
    this.#onMail(open.parts.join(''));
    return true;
  }
}
