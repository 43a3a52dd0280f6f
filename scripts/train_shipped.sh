#!/usr/bin/env bash
# Makes the translators that the package ships, and the check of the trainer.
#
#   scripts/train_shipped.sh en-fr | en-zh | multi30k  [DIR]
#
# DIR (runs/ when left out) takes the joined text and the run; a run that was stopped goes on. The weights as they are
# shipped, in float16, are put into DIR/shipped. Corpora are looked for in REGARD_DATA (../shared/data when unset).
# One processor thread, bfloat16 products; how long it took stands on the models' cards.
# multi30k is research use: its weights are a check, and are not shipped.
set -euo pipefail
data=${REGARD_DATA:-../shared/data}
what=${1:?usage: scripts/train_shipped.sh en-fr|en-zh|multi30k [DIR]}
runs=${2:-runs}
mkdir -p "$runs/text"
text=$runs/text/$what
regard=${REGARD:-regard}

# Whole sentences of package descriptions, 4 to 20 English words, for text longer than Tatoeba's.
described() { # language, mark that ends a sentence
  paste "$data/debian-ddtp/en-$1.en" "$data/debian-ddtp/en-$1.$1" |
    awk -F'\t' -v mark="$2" '{ n = split($1, word, " ") }
      n >= 4 && n <= 20 && $1 ~ /\.$/ && substr($2, length($2) - length(mark) + 1) == mark'
}

case $what in
  en-fr)
    tatoeba=$data/tatoeba-en-fr
    { cat "$tatoeba/train.en"; described fr . | cut -f1; } >"$text.en"
    { cat "$tatoeba/train.fr"; described fr . | cut -f2; } >"$text.fr"
    sizes=(--model transformer --norm pre --width 256 --heads 4 --layers 3 --feed 512 --joint --shared
      --source-pieces 5000 --target-pieces 5000 --patience 0 --precision bfloat16 --threads 1 --seed 1
      --dev-src "$tatoeba/valid.en" --dev-tgt "$tatoeba/valid.fr")
    $regard train --src "$text.en" --tgt "$text.fr" --out "$runs/en-fr-both" "${sizes[@]}" \
      --dropout 0.2 --sample 0.5 --plain 2 --rate 0.001 --warmup 1000 --batch-tokens 3000 --epochs "${EPOCHS:-15}"
    # Then everyday sentences alone, less held back, so that rare words of theirs are learnt and not copied.
    $regard train --from "$runs/en-fr-both" --src "$tatoeba/train.en" --tgt "$tatoeba/train.fr" --out "$runs/en-fr" \
      "${sizes[@]}" --dropout 0.1 --smoothing 0.05 --rate 0.0005 --warmup 50 --ema 0.998 --batch-tokens 2000 --epochs 3
    ;;
  en-zh)
    tatoeba=$data/tatoeba-en-zh
    { cat "$tatoeba/train.raw.en"; described zh 。 | cut -f1; } >"$text.en"
    { cat "$tatoeba/train.raw.zh"; described zh 。 | cut -f2; } >"$text.zh"
    $regard train --src "$text.en" --tgt "$text.zh" --dev-src "$tatoeba/valid.raw.en" --dev-tgt "$tatoeba/valid.raw.zh" \
      --out "$runs/en-zh" --model transformer --norm pre --width 256 --heads 4 --layers 3 --feed 512 --joint --shared \
      --source-pieces 7000 --target-pieces 7000 --dropout 0.3 --sample 0.5 --plain 2 --rate 0.001 --warmup 800 \
      --ema 0.995 --batch-tokens 2000 --epochs "${EPOCHS:-40}" --patience 0 --precision bfloat16 --threads 1 --seed 1 \
      --tokenize zh
    ;;
  multi30k)
    m=$data/multi30k
    $regard train --src "$m/train.en" --tgt "$m/train.fr" --dev-src "$m/val.en" --dev-tgt "$m/val.fr" \
      --out "$runs/multi30k" --source-pieces 3500 --target-pieces 3500 --embedding 256 --hidden 288 --alignment 256 \
      --readout 256 --dropout 0.35 --sample 0.5 --rate 0.0015 --batch-tokens 3000 --epochs "${EPOCHS:-20}" --patience 0 \
      --precision bfloat16 --threads 1 --seed 1 --tokenize none
    ;;
  *)
    echo "unknown model $what: wanted en-fr, en-zh or multi30k" >&2
    exit 2
    ;;
esac

if [ "$what" != multi30k ]; then
  ${PYTHON:-python} -c 'import sys; from pathlib import Path; from regard.translate.checkpoint import export
export(Path(sys.argv[1]), Path(sys.argv[2]))' "$runs/$what" "$runs/shipped/$what"
fi
