# Fraud detection, tabular. Feature engineering in processes, then a model (left out here).
import argparse
import concurrent.futures as cf
import csv
import io
import multiprocessing as mp
import statistics

ROWS = 4000


def read_table():
    text = "amount,hour,card\n" + "".join(f"{i * 7 % 503},{i % 24},{i % 97}\n" for i in range(ROWS))
    return list(csv.DictReader(io.StringIO(text)))


def card_features(card):
    amounts = [float(row["amount"]) for row in table if row["card"] == str(card)]
    return card, statistics.mean(amounts), statistics.pstdev(amounts)


def set_table(rows):
    global table
    table = rows


def run(start, share, again):
    if again:
        mp.set_start_method(start)
    context = mp.get_context(start)
    arguments = {"initializer": set_table, "initargs": (table,)} if share else {}
    with cf.ProcessPoolExecutor(3, mp_context=context, **arguments) as pool:
        return list(pool.map(card_features, range(97), chunksize=8))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", default="spawn")
    parser.add_argument("--share", action="store_true", help="send the table to the workers")
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--set-each-fold", action="store_true")
    args = parser.parse_args()
    table = read_table()
    for fold in range(args.folds):
        features = run(args.start, args.share, args.set_each_fold)
        print("fold", fold, len(features), "cards", round(features[3][1], 2))
