import { Fragment } from 'preact';
import type { FleetAnswer, Piece } from '../../../src/fleet-rules/answer.js';

/**
 * The sentence that answers whether everyone is on the new policy, for the inside of a heading or a
 * line.
 */
export function AnswerText({ answer }: { readonly answer: FleetAnswer }) {
  return (
    <>
      <span class="head">
        <Pieces pieces={answer.head} />
      </span>
      <span class="rest">
        {answer.rest.map((pieces) => (
          <Fragment key={pieces.map(({ text }) => text).join('')}>
            {' · '}
            <Pieces pieces={pieces} />
          </Fragment>
        ))}
      </span>
    </>
  );
}

function Pieces({ pieces }: { readonly pieces: readonly Piece[] }) {
  return (
    <>
      {pieces.map(({ text, tone }) =>
        tone === 'code' ? (
          <code key={text}>{text}</code>
        ) : (
          <span key={text} class={tone}>
            {text}
          </span>
        ),
      )}
    </>
  );
}
